"""Reductions over named axes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.support.semantic_cases.case import Case, Maker, shape_of, values

__all__ = ["CASES"]


def _reduced(rng: random.Random, least: int = 0) -> tuple[dict[str, Any], tuple[int, ...]]:
    shape = shape_of(rng, 1, 5)
    axes = sorted(rng.sample(range(len(shape)), rng.randint(least, len(shape))))
    return {"axes": tuple(a - len(shape) for a in axes), "keepdims": rng.randint(0, 1)}, shape


def _real(low: float = -2.0, least: int = 1) -> Maker:
    def make(rng: random.Random) -> Case:
        attrs, shape = _reduced(rng, least)
        return Case(attrs, [values(rng, shape, low=low)], opset=rng.choice([13, 17, 18, 20]))

    return make


def _any(low: float = -2.0, least: int = 1, truth: bool = False) -> Maker:
    """Real numbers, integers, and truth values where ONNX has them (opset 20)."""

    def make(rng: random.Random) -> Case:
        dtype = rng.choice(["float32", "float32", "float64", "int32", "int64", *(["bool"] if truth else [])])
        attrs, shape = _reduced(rng, least)
        opset = 20 if dtype == "bool" else rng.choice([13, 17, 18, 20])
        return Case(attrs, [values(rng, shape, dtype, low)], opset=opset)

    return make


def _place(rng: random.Random) -> Case:
    shape = shape_of(rng, 1, 4)
    attrs = {"axis": rng.randrange(len(shape)) - len(shape), "keepdims": rng.randint(0, 1)}
    x = values(rng, shape, rng.choice(["float32", "float32", "float64", "int32", "int64", "int8", "uint8"]), 0, 3)
    last = {"select_last_index": rng.randint(0, 1)}
    return Case(attrs | last, [np.rint(x).astype(x.dtype)], opset=rng.choice([13, 17, 20]))  # many are equal


CASES: dict[str, Maker] = {
    **dict.fromkeys(("ArgMax", "ArgMin"), _place),
    "ReduceSum": _any(least=0),
    "ReduceMean": _real(least=0),
    "ReduceProd": _any(least=0),
    "ReduceMax": _any(least=0, truth=True),
    "ReduceMin": _any(least=0, truth=True),
    "ReduceL1": _any(),
    "ReduceL2": _real(),
    "ReduceSumSquare": _any(),
    "ReduceLogSum": _real(low=0.5),
    "ReduceLogSumExp": _real(),
}
