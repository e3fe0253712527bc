"""Constants in closed form: tensors that a rule may write down without a weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ir.operators.spec import DtypeRule, IllTyped, Need, fits, need_at_most, need_equal, op

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


def _literal(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    shape = tuple(attrs["shape"])
    if not all(isinstance(size, int) for size in shape) or math.prod(shape) != len(attrs["value_floats"]):
        raise IllTyped("a Constant has as many values as places")
    return (shape,)


def _holds(*names: str) -> DtypeRule:
    """The element type that is asked for, where it has the values of the attributes."""

    def rule(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
        for name in names:
            for value in attrs[name] if isinstance(attrs[name], tuple) else (attrs[name],):
                if isinstance(value, (int, float)) and not fits(value, default):
                    raise IllTyped(f"{value} as {default}")
        return default

    return rule


SPECS = (
    op("Zeros", 0, 0, "shape", shape=_filled),
    op("Ones", 0, 0, "shape", shape=_filled),
    op("Eye", 0, 0, "n", shape=_eye),
    op("Dirac", 0, 0, "group shape", shape=_dirac),
    op("ConstantOfShape", 0, 0, "shape value=0.0", shape=_filled, dtype=_holds("value")),
    op("Constant", 0, 0, "shape value_floats", shape=_literal, dtype=_holds("value_floats")),
    op("Range", 0, 0, "delta n start", shape=_range, dtype=_holds("delta", "start")),
)
