"""Convolutions."""

from __future__ import annotations

import random

from tests.support.semantic_cases.case import Case, Maker, case

__all__ = ["CASES"]


def _conv_transpose(rng: random.Random) -> Case:
    spatial, group = rng.choice([1, 2, 2, 3]), rng.choice([1, 1, 2, 3])
    kernel = [rng.randint(1, 3) for _ in range(spatial)]
    size = [rng.randint(1, 3) for _ in range(spatial)]
    dilations = [rng.randint(1, 2) for _ in range(spatial)]
    strides = [rng.randint(1, 3) for _ in range(spatial)]
    more = [rng.randint(0, s - 1) for s in strides]
    full = [
        (n - 1) * s + (k - 1) * d + 1 + o for n, s, k, d, o in zip(size, strides, kernel, dilations, more, strict=True)
    ]
    begins = [rng.randint(0, min(2, n - 1)) for n in full]
    ends = [rng.randint(0, min(2, n - 1 - begin)) for n, begin in zip(full, begins, strict=True)]
    attrs = {
        "dilations": tuple(dilations),
        "group": group,
        "output_padding": tuple(more),
        "pads": (*begins, *ends),
        "strides": tuple(strides),
    }
    channels, out = group * rng.randint(1, 2), rng.randint(1, 2)
    shapes = [(rng.randint(1, 2), channels, *size), (channels, out, *kernel)]
    made = case(rng, attrs, shapes + ([(out * group,)] if rng.random() < 0.5 else []))
    # onnx.reference slices the kernels of a group by output channels, and gives every group the bias of the first.
    return made if group == 1 else Case(made.attrs, made.arrays, ("onnxruntime",))


CASES: dict[str, Maker] = {"ConvTranspose": _conv_transpose}
