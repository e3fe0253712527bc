"""Operators that pick elements by position."""

from __future__ import annotations

import random

from tests.support.semantic_cases.case import Case, Maker, shape_of, values

__all__ = ["CASES"]


def _gather(rng: random.Random) -> Case:
    shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
    axis = rng.randrange(len(shape))
    size = shape[axis]
    kind = rng.choice(["one", "steps", "any", "any"])
    indices: int | tuple[int, ...] = rng.randint(-size, size - 1)
    if kind == "steps":
        picked = list(range(rng.randrange(size), size, rng.randint(1, 3)))
        indices = tuple(picked[:: rng.choice([1, -1])])
    elif kind == "any":
        indices = tuple(rng.randint(-size, size - 1) for _ in range(rng.randint(1, 5)))
    x = values(rng, shape, rng.choice(["float32", "float32", "int32", "int64", "bool"]))
    return Case({"axis": axis - len(shape), "indices": indices}, [x], opset=rng.choice([11, 13, 17]))


def _lookup(rng: random.Random) -> Case:
    shape = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
    axis = rng.randrange(len(shape))
    x = values(rng, shape, rng.choice(["float32", "float32", "float64", "int32", "int64", "bool"]))
    indices = values(rng, shape_of(rng, 0, 3), rng.choice(["int32", "int64"]), -shape[axis], shape[axis] - 1)
    return Case({"axis": axis - len(shape)}, [x, indices], opset=rng.choice([11, 13, 17]))


def _one_hot(rng: random.Random) -> Case:
    indices = values(rng, shape_of(rng, 1, 3), "int64", -5, 5)
    axis = rng.randrange(indices.ndim + 1) - indices.ndim - 1
    pair = values(rng, (2,), rng.choice(["float32", "int64"]), -9, 9)
    return Case({"axis": axis, "depth": rng.randint(1, 6)}, [indices, pair], opset=rng.choice([11, 17]))


def _trilu(rng: random.Random) -> Case:
    x = values(rng, shape_of(rng, 2, 4), rng.choice(["float32", "float32", "float64", "int64", "bool"]))
    return Case({"k": rng.randint(-4, 4), "upper": rng.randint(0, 1)}, [x], opset=rng.choice([14, 17, 21]))


def _cumsum(rng: random.Random) -> Case:
    shape = shape_of(rng, 1, 4)
    attrs = {
        "axis": rng.randrange(len(shape)) - len(shape),
        "exclusive": rng.randint(0, 1),
        "reverse": rng.randint(0, 1),
    }
    x = values(rng, shape, rng.choice(["float32", "float32", "float64", "int32", "int64"]))
    return Case(attrs, [x], opset=rng.choice([11, 14, 17]))


CASES: dict[str, Maker] = {
    "Gather": _gather,
    "Lookup": _lookup,
    "OneHot": _one_hot,
    "Trilu": _trilu,
    "CumSum": _cumsum,
}
