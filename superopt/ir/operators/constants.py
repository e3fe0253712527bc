"""Constants in closed form: tensors that a rule may write down without a weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ir.operators.spec import DtypeRule, IllTyped, Need, need_at_most, need_equal, op
from superopt.ir.types import FLOAT_DTYPES

__all__ = ["SPECS"]


def _filled(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    for size in attrs["shape"]:
        need_at_most(need, 0, size)
    return (tuple(attrs["shape"]),)


def _eye(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    need_at_most(need, 0, attrs["n"])
    return ((attrs["n"], attrs["n"]),)


def _dirac(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    shape = tuple(attrs["shape"])
    if len(shape) < 3:
        raise IllTyped("a Dirac kernel has at least three dimensions")
    need_equal(need, shape[0], shape[1] * attrs["group"])
    for positive in (attrs["group"], *shape[1:]):
        need_at_most(need, 1, positive)
    return (shape,)


def _range(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    need_at_most(need, 0, attrs["n"])
    return ((attrs["n"],),)


def _holds(*names: str) -> DtypeRule:
    """The element type that is asked for, where it has the values of the attributes."""

    def rule(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
        for value in (attrs[name] for name in names):
            if isinstance(value, (int, float)) and not _fits(value, default):
                raise IllTyped(f"{value} as {default}")
        return default

    return rule


# The smallest normal and the largest number of each real type (IEEE 754; bfloat16 has float's exponents).
_RANGES = {
    "float16": (6.103515625e-05, 65504.0),
    "bfloat16": (1.1754943508222875e-38, 3.3895313892515355e38),
    "float": (1.1754943508222875e-38, 3.4028234663852886e38),
    "double": (2.2250738585072014e-308, 1.7976931348623157e308),
}


def _fits(value: float, dtype: str) -> bool:
    if not math.isfinite(value):
        return False
    if dtype in FLOAT_DTYPES:
        return value == 0 or _RANGES[dtype][0] <= abs(value) <= _RANGES[dtype][1]
    if not float(value).is_integer():
        return False
    if dtype == "bool":
        return value in (0, 1)
    kind, bits = dtype.rstrip("0123456789"), dtype.lstrip("uint")
    if kind not in ("int", "uint"):
        return False
    least, most = (0, 2 ** int(bits)) if kind == "uint" else (-(2 ** (int(bits) - 1)), 2 ** (int(bits) - 1))
    return bool(least <= value < most)


SPECS = (
    op("Zeros", 0, 0, "shape", shape=_filled),
    op("Ones", 0, 0, "shape", shape=_filled),
    op("Eye", 0, 0, "n", shape=_eye),
    op("Dirac", 0, 0, "group shape", shape=_dirac),
    op("ConstantOfShape", 0, 0, "shape value=0.0", shape=_filled, dtype=_holds("value")),
    op("Range", 0, 0, "delta n start", shape=_range, dtype=_holds("delta", "start")),
)
