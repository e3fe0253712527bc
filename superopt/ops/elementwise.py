"""Operators that work element by element.

Operators that work element by element; operands broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ops.algebra import Algebra
from superopt.ops.definition import Definition, broadcast, negative
from superopt.ops.typing import floats, numbers, op, signed

__all__ = ["OPERATORS"]


def _add(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Add and Sum: sum of all operands."""
    return g.add(*(broadcast(x, i) for x in xs))


def _sub(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.add(broadcast(xs[0], i), negative(g, broadcast(xs[1], i)))


def _mul(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return g.multiply(broadcast(xs[0], i), broadcast(xs[1], i))


def _neg(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return negative(g, xs[0].at(*i))


def _identity(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    return xs[0].at(*i)


def _relu(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """max(x, 0)."""
    return g.maximum([xs[0].at(*i), g.constant(Fraction(0))])


def _function(name: str) -> Definition:
    return lambda g, xs, attrs, shape, i: g.apply(name, xs[0].at(*i))


OPERATORS = (
    op("Add", 2, 2, dtype=numbers, commutative=True, ieee="addition", meaning=_add),
    op("Sub", 2, 2, dtype=numbers, ieee="subtraction", meaning=_sub),
    op("Mul", 2, 2, dtype=numbers, commutative=True, ieee="multiplication", meaning=_mul),
    op("Sum", 1, None, dtype=floats, commutative=True, meaning=_add),
    op("Neg", 1, 1, dtype=signed, ieee="negate", meaning=_neg),
    op("Identity", 1, 1, meaning=_identity),
    op("Relu", 1, 1, dtype=signed, ieee="maximum", meaning=_relu),
    op("Sigmoid", 1, 1, dtype=floats, meaning=_function("sigmoid")),
    op("Tanh", 1, 1, dtype=floats, meaning=_function("tanh")),
)
