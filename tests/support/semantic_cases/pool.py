"""Pooling."""

from __future__ import annotations

import random
from typing import Any

from tests.support.semantic_cases.case import Case, Maker, case, values

__all__ = ["CASES"]


def _windows(rng: random.Random, dilated: bool) -> tuple[dict[str, Any], tuple[int, ...]]:
    spatial = rng.choice([1, 2, 2, 3])
    kernel = [rng.randint(1, 3) for _ in range(spatial)]
    dilations = [rng.randint(1, 2) if dilated else 1 for _ in range(spatial)]
    pads = [rng.randint(0, min(1, k - 1)) if rng.random() < 0.7 else rng.randint(0, k - 1) for k in kernel * 2]
    attrs = {
        "dilations": tuple(dilations),
        "kernel_shape": tuple(kernel),
        "pads": tuple(pads),
        "strides": tuple(rng.randint(1, 3) for _ in range(spatial)),
    }
    sizes = []
    for d in range(spatial):
        reach = (kernel[d] - 1) * dilations[d] + 1
        sizes.append(max(reach - pads[d] - pads[spatial + d], dilations[d], 1) + rng.randint(0, 3))
    return attrs, (rng.randint(1, 2), rng.randint(1, 2), *sizes)


def _max_pool(rng: random.Random) -> Case:
    attrs, shape = _windows(rng, dilated=True)
    dtype = rng.choice(["float32", "float32", "float64", "int8", "uint8"])
    low, high = {"int8": (-128, 127), "uint8": (0, 255)}.get(dtype, (-2, 2))
    # Without strides and dilations onnx.reference forgets the padding when it counts the windows.
    lost = any(attrs["pads"]) and {*attrs["strides"], *attrs["dilations"]} == {1}
    oracles = ("onnxruntime",) if lost else ("onnxruntime", "reference")
    return Case(attrs, [values(rng, shape, dtype, low, high)], oracles, opset=rng.choice([12, 17, 22]))


def _average_pool(rng: random.Random) -> Case:
    opset = rng.choice([11, 17, 19, 22])
    attrs, shape = _windows(rng, dilated=opset >= 19)
    attrs["count_include_pad"] = rng.randint(0, 1)
    return Case(attrs, [values(rng, shape)], opset=opset)


def _global(rng: random.Random) -> Case:
    return case(rng, {}, [tuple(rng.randint(1, 4) for _ in range(rng.randint(3, 5)))])


def _global_max_pool(rng: random.Random) -> Case:
    made = _global(rng)
    (x,) = made.arrays
    assert x is not None
    # onnx.reference takes the wrong axes where the spatial ones are not two.
    return Case({}, made.arrays, ("onnxruntime", "reference") if x.ndim == 4 else ("onnxruntime",))


CASES: dict[str, Maker] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalMaxPool": _global_max_pool,
    "GlobalAveragePool": _global,
}
