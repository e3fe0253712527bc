"""Constants in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Sizes, floor_div
from verify.algebra import Algebra, Table, equal
from verify.semantics.common import Definition, number

__all__ = ["DEFINITIONS"]


def _zeros(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.constant(Fraction(0))


def _ones(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.constant(Fraction(1))


def _eye(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """1 where row = column, else 0."""
    return g.piecewise([([equal(i[0], i[1])], lambda: g.constant(Fraction(1)))], g.constant(Fraction(0)))


def _dirac(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """1 at input channel o mod (channels a group) and at the centre (k - 1) // 2 of every kernel axis, else 0."""
    out, channel, *window = i
    centre = [equal(k, floor_div(size - 1, 2)) for k, size in zip(window, shape[2:], strict=True)]
    own = out if attrs["group"] == 1 else out - floor_div(out, shape[1]) * shape[1]
    return g.piecewise([([equal(channel, own), *centre], lambda: g.constant(Fraction(1)))], g.constant(Fraction(0)))


def _constant_of_shape(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """`value` everywhere (ConstantOfShape-9)."""
    return number(g, attrs["value"])


def _range(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """start + k * delta (Range-11)."""
    return g.add(number(g, attrs["start"]), g.multiply(g.size(i[0]), number(g, attrs["delta"])))


def _constant(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """value_floats in row-major order (Constant-13)."""
    sizes: tuple[int, ...] = tuple(attrs["shape"])
    return g.entry(Table(sizes, tuple(map(Fraction, attrs["value_floats"]))), i)


DEFINITIONS: Mapping[str, Definition] = {
    "Zeros": _zeros,
    "Ones": _ones,
    "Eye": _eye,
    "Dirac": _dirac,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
}
