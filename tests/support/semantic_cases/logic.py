"""Truth values, comparisons, and conversions between element types."""

from __future__ import annotations

import random

import numpy as np

from tests.support.semantic_cases.case import Array, Case, Maker, broadcast_to, shape_of, values

__all__ = ["CASES"]


def _shapes(rng: random.Random, count: int) -> list[tuple[int, ...]]:
    full = shape_of(rng, 0, 5)
    shapes = [full, *(broadcast_to(rng, full) for _ in range(count - 1))]
    rng.shuffle(shapes)
    return shapes


def _truths(count: int) -> Maker:
    return lambda rng: Case({}, [values(rng, shape, "bool") for shape in _shapes(rng, count)], opset=17)


def _where(rng: random.Random) -> Case:
    condition, x, y = _shapes(rng, 3)
    dtype = rng.choice(("float32", "float64", "int32", "int64", "uint8", "bool"))
    arrays = [values(rng, condition, "bool"), values(rng, x, dtype, 0, 5), values(rng, y, dtype, 0, 5)]
    # ONNX Runtime's CPU provider does not implement it for truth values, which the specification allows.
    oracles = ("reference",) if dtype == "bool" else ("onnxruntime", "reference")
    return Case({}, arrays, oracles, opset=rng.choice((9, 16, 17)))


def _comparison(*dtypes: str, opsets: tuple[int, ...]) -> Maker:
    def make(rng: random.Random) -> Case:
        dtype = rng.choice(dtypes)
        # Whole numbers, so that many are equal.
        arrays = [np.asarray(np.rint(values(rng, s, dtype)), dtype) for s in _shapes(rng, 2)]
        return Case({}, arrays, opset=rng.choice(opsets))

    return make


_NAMES = {
    "bool": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8",
    "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float16": "float16", "float": "float32",
    "double": "float64",
}  # fmt: skip


def _cast(rng: random.Random) -> Case:
    source, to = rng.choice(list(_NAMES.values())), rng.choice(list(_NAMES))
    to = "int32" if to == "uint32" and source.startswith("float") else to  # undefined here
    x = _castable(rng, shape_of(rng, 0, 5), np.dtype(source), np.dtype(_NAMES[to]))
    return Case({"to": to}, [x], opset=rng.choice((13, 17, 19, 22)), tolerance=0)


def _castable(rng: random.Random, shape: tuple[int, ...], source: np.dtype, to: np.dtype) -> Array:
    if source.kind == "b":
        return values(rng, shape, "bool")
    if source.kind == "f":
        # What is outside of an integer type's range has no defined result.
        low, high = {"i": (-100, 100), "u": (0, 100)}.get(to.kind, (-3, 3))
        x = values(rng, shape, source.name, low, high)
        return np.where(values(rng, shape, "int8", 0, 3) == 0, np.rint(x), x).astype(source)
    ends = np.iinfo(source)
    # float16 ends at 65504.
    wide = rng.choice((3, 300, 30000) if to == np.float16 else (3, 300, 70000, 1 << 40))
    return values(rng, shape, source.name, max(ends.min, -wide), min(ends.max, wide))


CASES: dict[str, Maker] = {
    "Where": _where,
    "Not": _truths(1),
    **dict.fromkeys(("And", "Or", "Xor"), _truths(2)),
    "Equal": _comparison("float32", "float64", "int32", "int64", "bool", opsets=(11, 13, 19)),
    **dict.fromkeys(("Less", "Greater"), _comparison("float32", "float64", "int32", "int64", opsets=(9, 13, 17))),
    **dict.fromkeys(
        ("LessOrEqual", "GreaterOrEqual"), _comparison("float32", "float64", "int32", "int64", opsets=(12, 16, 17))
    ),
    "Cast": _cast,
}
