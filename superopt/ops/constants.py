"""Constants in closed form: tensors that a rule can express without a weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Sizes, floor_div
from superopt.ops.algebra import Algebra, Table, equal
from superopt.ops.definition import number
from superopt.ops.entry import operator
from superopt.ops.typing import DtypeRule, IllTyped, Need, fits, need_at_most, need_equal


def _filled(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    for size in attrs["shape"]:
        need_at_most(need, 0, size)
    return (tuple(attrs["shape"]),)


@operator("Zeros", 0, 0, "shape", shape=_filled)
def _zeros(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.constant(Fraction(0))


@operator("Ones", 0, 0, "shape", shape=_filled)
def _ones(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.constant(Fraction(1))


def _eye_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    need_at_most(need, 0, attrs["n"])
    return ((attrs["n"], attrs["n"]),)


@operator("Eye", 0, 0, "n", shape=_eye_type)
def _eye(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """1 where row = column, else 0."""
    return g.piecewise([([equal(i[0], i[1])], lambda: g.constant(Fraction(1)))], g.constant(Fraction(0)))


def _dirac_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    shape = tuple(attrs["shape"])
    if len(shape) < 3:
        raise IllTyped("a Dirac kernel has at least three dimensions")
    need_equal(need, shape[0], shape[1] * attrs["group"])
    for positive in (attrs["group"], *shape[1:]):
        need_at_most(need, 1, positive)
    return (shape,)


@operator("Dirac", 0, 0, "group shape", shape=_dirac_type)
def _dirac(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """1 at input channel o mod (channels a group) and at the centre (k - 1) // 2 of every kernel axis, else 0."""
    out, channel, *window = i
    centre = [equal(k, floor_div(size - 1, 2)) for k, size in zip(window, shape[2:], strict=True)]
    own = out if attrs["group"] == 1 else out - floor_div(out, shape[1]) * shape[1]
    return g.piecewise([([equal(channel, own), *centre], lambda: g.constant(Fraction(1)))], g.constant(Fraction(0)))


def _holds(*names: str) -> DtypeRule:
    """Return a rule for the requested element type. It raises IllTyped if the type cannot hold these attributes."""

    def rule(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
        for name in names:
            for value in attrs[name] if isinstance(attrs[name], tuple) else (attrs[name],):
                if isinstance(value, (int, float)) and not fits(value, default):
                    raise IllTyped(f"{value} as {default}")
        return default

    return rule


@operator("ConstantOfShape", 0, 0, "shape value=0.0", shape=_filled, dtype=_holds("value"))
def _constant_of_shape(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """`value` everywhere (ConstantOfShape-9)."""
    return number(g, attrs["value"])


def _literal(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    shape = tuple(attrs["shape"])
    if not all(isinstance(size, int) for size in shape) or math.prod(shape) != len(attrs["value_floats"]):
        raise IllTyped("a Constant has as many values as places")
    return (shape,)


@operator("Constant", 0, 0, "shape value_floats", shape=_literal, dtype=_holds("value_floats"))
def _constant(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """value_floats in row-major order (Constant-13)."""
    sizes: tuple[int, ...] = tuple(attrs["shape"])
    return g.entry(Table(sizes, tuple(map(Fraction, attrs["value_floats"]))), i)


def _range_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    need_at_most(need, 0, attrs["n"])
    return ((attrs["n"],),)


@operator("Range", 0, 0, "delta n start", shape=_range_type, dtype=_holds("delta", "start"))
def _range(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """start + k * delta (Range-11)."""
    return g.add(number(g, attrs["start"]), g.multiply(g.size(i[0]), number(g, attrs["delta"])))
