"""The operators that models are mostly made of."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tests.support.semantic_cases.case import Case, Maker, broadcast_to, case, shape_of

__all__ = ["CASES"]

Plain: TypeAlias = tuple[dict[str, Any], list[tuple[int, ...]]]  # attributes, and shapes of real inputs


def _binary(rng: random.Random) -> Plain:
    full = shape_of(rng)
    return {}, [broadcast_to(rng, full), broadcast_to(rng, full)]


def _variadic(rng: random.Random) -> Plain:
    full = shape_of(rng)
    return {}, [broadcast_to(rng, full) for _ in range(rng.randint(1, 3))]


def _unary(rng: random.Random) -> Plain:
    return {}, [shape_of(rng)]


def _matmul(rng: random.Random) -> Plain:
    m, k, n = (rng.randint(1, 4) for _ in range(3))
    batch = shape_of(rng, 0, 2)
    a = (*broadcast_to(rng, batch), m, k) if rng.random() < 0.8 else (k,)
    b = (*broadcast_to(rng, batch), k, n) if rng.random() < 0.8 else (k,)
    return {}, [a, b]


def _gemm(rng: random.Random) -> Plain:
    m, k, n = (rng.randint(1, 4) for _ in range(3))
    ta, tb = rng.randint(0, 1), rng.randint(0, 1)
    attrs = {"alpha": rng.choice([1.0, 0.5, -2.0]), "beta": rng.choice([1.0, 0.25]), "transA": ta, "transB": tb}
    c = [rng.choice([(n,), (1, n), (m, n), (m, 1), (1,), ()])] if rng.random() < 0.7 else []
    return attrs, [(k, m) if ta else (m, k), (n, k) if tb else (k, n), *c]


def _concat(rng: random.Random) -> Plain:
    shape = shape_of(rng, 1)
    axis = rng.randrange(len(shape))
    parts = [(*shape[:axis], rng.randint(1, 3), *shape[axis + 1 :]) for _ in range(rng.randint(1, 3))]
    return {"axis": axis - len(shape)}, parts


def _split(rng: random.Random) -> Plain:
    sizes = tuple(rng.randint(1, 3) for _ in range(rng.randint(1, 3)))
    shape = list(shape_of(rng, 1))
    axis = rng.randrange(len(shape))
    shape[axis] = sum(sizes)
    return {"axis": axis - len(shape), "split": sizes}, [tuple(shape)]


def _slice(rng: random.Random) -> Plain:
    shape = tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 4)))
    axes = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    starts = [rng.randint(0, shape[a] - 1) for a in axes]
    steps = [rng.choice([1, 2, 3, -1, -2, -3]) for _ in axes]
    # Backwards to -1, which is before the first element; and some ranges are empty.
    ends = [
        rng.randint(start, shape[a]) if step > 0 else rng.randint(-1, start)
        for a, start, step in zip(axes, starts, steps, strict=True)
    ]
    named = {"axes": [a - len(shape) for a in axes], "starts": starts, "ends": ends, "steps": steps}
    return {name: tuple(values) for name, values in named.items()}, [shape]


def _transpose(rng: random.Random) -> Plain:
    shape = shape_of(rng, 1)
    return {"perm": tuple(rng.sample(range(len(shape)), len(shape)))}, [shape]


def _pad(rng: random.Random) -> Plain:
    shape = tuple(rng.randint(2, 4) for _ in range(rng.randint(1, 3)))
    begins, ends = ([rng.randint(-5, 3) for _ in shape] for _ in range(2))  # crops of more than there is, too
    pads = tuple(begins + [max(end, 1 - begin - n) for begin, end, n in zip(begins, ends, shape, strict=True)])
    return {"pads": pads, "value": rng.choice([0.0, 1.5])}, [shape]


def _unsqueeze(rng: random.Random) -> Plain:
    shape, more = shape_of(rng, 0, 3), rng.randint(1, 2)
    rank = len(shape) + more
    return {"axes": tuple(a - rank for a in sorted(rng.sample(range(rank), more)))}, [shape]


def _squeeze(rng: random.Random) -> Plain:
    attrs, (shape,) = _unsqueeze(rng)
    rank = len(shape) + len(attrs["axes"])
    places, rest = {a + rank for a in attrs["axes"]}, iter(shape)
    return attrs, [tuple(1 if d in places else next(rest) for d in range(rank))]


def _conv(rng: random.Random) -> Plain:
    spatial, group = rng.choice([1, 2, 2, 3]), rng.choice([1, 1, 2, 3])
    kernel = [rng.randint(1, 3) for _ in range(spatial)]
    dilations = [rng.randint(1, 2) for _ in range(spatial)]
    attrs = {
        "dilations": tuple(dilations),
        "group": group,
        "pads": tuple(rng.randint(0, 2) for _ in range(2 * spatial)),
        "strides": tuple(rng.randint(1, 3) for _ in range(spatial)),
    }
    size = [(k - 1) * d + 1 + rng.randint(0, 2) for k, d in zip(kernel, dilations, strict=True)]
    channels, out = rng.randint(1, 2), group * rng.randint(1, 2)
    shapes = [(rng.randint(1, 2), channels * group, *size), (out, channels, *kernel)]
    return attrs, shapes + ([(out,)] if rng.random() < 0.5 else [])


def _batch_normalization(rng: random.Random) -> Plain:
    shape = shape_of(rng, 2, 4)
    return {"epsilon": rng.choice([1e-5, 0.5])}, [shape, *[(shape[1],)] * 4]


_PLAIN: dict[str, Callable[[random.Random], Plain]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    **dict.fromkeys(("Add", "Sub", "Mul"), _binary),
    "Sum": _variadic,
    **dict.fromkeys(("Neg", "Identity", "Relu", "Sigmoid", "Tanh"), _unary),
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Transpose": _transpose,
    "Pad": _pad,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Conv": _conv,
    "BatchNormalization": _batch_normalization,
}


def _made(op: str, plain: Callable[[random.Random], Plain]) -> Maker:
    def make(rng: random.Random) -> Case:
        made = case(rng, *plain(rng))
        if op == "BatchNormalization":
            variance = made.arrays[4]
            assert variance is not None
            return Case(made.attrs, [*made.arrays[:4], np.abs(variance)])
        if op == "Pad" and min(made.attrs["pads"]) < 0:
            return Case(made.attrs, made.arrays, ("onnxruntime",))  # onnx.reference has no negative pads
        return made

    return make


CASES: dict[str, Maker] = {op: _made(op, plain) for op, plain in _PLAIN.items()}
