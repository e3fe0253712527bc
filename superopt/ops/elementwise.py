"""Elementwise operators on operands that broadcast."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ops.algebra import Algebra
from superopt.ops.definition import Definition, broadcast, negative
from superopt.ops.entry import operator
from superopt.ops.typing import floats, numbers, signed


@operator("Add", 2, 2, dtype=numbers, commutative=True, ieee="addition")
def _add(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Add and Sum: sum of all operands."""
    return g.add(*(broadcast(x, i) for x in xs))


@operator("Sub", 2, 2, dtype=numbers, ieee="subtraction")
def _sub(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.add(broadcast(xs[0], i), negative(g, broadcast(xs[1], i)))


@operator("Mul", 2, 2, dtype=numbers, commutative=True, ieee="multiplication")
def _mul(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.multiply(broadcast(xs[0], i), broadcast(xs[1], i))


operator("Sum", 1, None, dtype=floats, commutative=True)(_add)


@operator("Neg", 1, 1, dtype=signed, ieee="negate")
def _neg(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return negative(g, xs[0].at(*i))


@operator("Identity", 1, 1)
def _identity(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return xs[0].at(*i)


@operator("Relu", 1, 1, dtype=signed, ieee="maximum")
def _relu(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """max(x, 0)."""
    return g.maximum([xs[0].at(*i), g.constant(Fraction(0))])


def _function(name: str) -> Definition:
    return lambda g, xs, attrs, shape, i: g.apply(name, xs[0].at(*i))


operator("Sigmoid", 1, 1, dtype=floats)(_function("sigmoid"))
operator("Tanh", 1, 1, dtype=floats)(_function("tanh"))
