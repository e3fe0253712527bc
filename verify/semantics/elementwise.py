"""Operators that work element by element; operands broadcast."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Sizes
from verify.algebra import Algebra
from verify.semantics.common import Definition, broadcast, negative

__all__ = ["DEFINITIONS"]


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


DEFINITIONS: Mapping[str, Definition] = {
    "Add": _add,
    "Sum": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Neg": _neg,
    "Identity": _identity,
    "Relu": _relu,
    "Sigmoid": _function("sigmoid"),
    "Tanh": _function("tanh"),
}
