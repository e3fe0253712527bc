"""Evaluates operators modulo P = 2^31 - 1, on stacks of tensors: one call computes thousands of graphs.

A value is a `uint64` array whose last axes are the tensor's axes. All axes before them are stacked graphs and samples,
which broadcast against each other. Operators have the following meaning modulo P, which determines the equations that
hold:

polynomials         exact: sums, products, data movement. Two polynomials that differ agree on a random sample with
                    probability at most degree / P (Schwartz-Zippel)
quotients           1/x is the inverse in the field, 0 for 0; 1/n of means likewise. Fractions with small denominators
                    are exact, other real attributes pseudo-random numbers (`residue`)
order               residues are numbers between -P/2 and P/2: Relu, Max, Clip, MaxPool, Abs, Less and so on compare
                    them. Sums of small variables (`small_residues`) do not wrap, so that Max(x + z, y + z) is
                    Max(x, y) + z. Products wrap, so equations about the signs of products are not found
Exp, Log, Sqrt      powers of a primitive root, their exponents, and powers with exponent (P + 1) / 4
                    (`residue_functions`)
Sigmoid, Tanh, Erf  random increasing functions with f(-x) = -f(x), and 1 - f(x) for Sigmoid: they commute with Max
Sin, Cos            random functions with sin(-x) = -sin(x), cos(-x) = cos(x), sin(0) = 0 and cos(0) = 1
Floor, Ceil, Round  of residue / 3, because on whole numbers they would be the identity
all others          their definitions, with the functions above; `modular_fast` has the exceptions
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from superopt.evaluate.composite import along_equations, is_composite
from superopt.evaluate.modular_fast import EXCEPTIONS, PRODUCTS, Attrs, Kernel
from superopt.evaluate.reading import Reading
from superopt.evaluate.residue_functions import FUNCTIONS
from superopt.evaluate.residues import (
    HALF,
    Array,
    P,
    Shape,
    absolute,
    added,
    inverse,
    negative,
    rank,
    reduced,
    residue,
    unrank,
)
from superopt.ir.term import Term
from superopt.ir.types import TensorType

__all__ = ["Residues", "by_definition", "compute"]

_P, _HALF, _ZERO = np.uint64(P), np.uint64(HALF), np.uint64(0)


def _array(x: Any) -> Any:
    """Return a constant as a NumPy residue."""
    return np.uint64(x) if isinstance(x, int) else x


class Residues(Reading):
    """The reading modulo P: scalars are `uint64` arrays of residues, constants are Python integers."""

    minus_one = P - 1

    def constant(self, value: Fraction) -> int:
        return residue(float(value))

    def whole(self, value: Array) -> Array:
        return np.asarray(value % P).astype(np.uint64)  # reduced before the conversion: values may be negative

    def places(self, value: Array, size: int) -> Any:
        """Return signed numbers modulo the size."""
        return np.asarray((rank(value).astype(np.int64) - HALF) % size)

    def plus(self, left: Any, right: Any) -> Any:
        return added(_array(left), _array(right))

    def minus(self, left: Any, right: Any) -> Any:
        return reduced(_array(left) + (_P - _array(right)))

    def times(self, left: Any, right: Any) -> Any:
        return reduced(_array(left) * _array(right))

    def over(self, left: Any, right: Any) -> Any:
        return self.times(left, pow(right, P - 2, P) if isinstance(right, int) else inverse(right))

    def opposite(self, x: Any) -> Any:
        return negative(_array(x))

    def total(self, x: Array) -> Any:
        return x.sum(axis=0)

    def settled(self, x: Any) -> Any:
        return reduced(_array(x))

    def widened(self, x: Any) -> Any:
        return x

    def larger(self, left: Any, right: Any) -> Any:
        if isinstance(right, int) and right == 0:
            return np.where(left <= _HALF, left, _ZERO)
        return unrank(np.maximum(rank(_array(left)), rank(_array(right))))

    def smaller(self, left: Any, right: Any) -> Any:
        return unrank(np.minimum(rank(_array(left)), rank(_array(right))))

    def greatest(self, x: Array, least: bool) -> Array:
        ranks = rank(x)
        return unrank(ranks.min(axis=0) if least else ranks.max(axis=0))

    def size_of(self, x: Any) -> Any:
        return absolute(_array(x))

    def related(self, relation: str, left: Any, right: Any) -> Any:
        left, right = _array(left), _array(right)
        if relation == "==":
            return left == right
        return (np.greater if relation == ">" else np.greater_equal)(rank(left), rank(right))

    def extreme(self, dtype: np.dtype[Any], largest: bool) -> int:
        return HALF if largest else HALF + 1

    def function(self, name: str, *arguments: Any) -> Any:
        return FUNCTIONS[name](*map(np.asarray, map(_array, arguments)))


def compute(op: str, xs: Sequence[Any], shapes: Sequence[Any], attrs: Attrs, out: Shape) -> Array:
    """Return the value of an operator on stacked operands of these shapes (None: absent).

    The attribute `index` selects one of several outputs. Raises KeyError for an operator that cannot be evaluated.
    """
    kernel = _KERNELS.get(op)
    return by_definition(op, xs, shapes, attrs, out) if kernel is None else kernel(xs, shapes, attrs, out)


def by_definition(op: str, xs: Sequence[Any], shapes: Sequence[Any], attrs: Attrs, out: Shape) -> Array:
    """Return the value of an operator, like `compute`, but always by its definition."""
    stacks = [x.shape[: x.ndim - len(shape)] for x, shape in zip(xs, shapes, strict=True) if x is not None]
    lead = np.broadcast_shapes(*stacks)
    if is_composite(op):
        if 0 in out:  # the steps of an equation may ask for at least one element, a mean for example
            return np.zeros(lead + out, np.uint64)
        types = [None if shape is None else TensorType("float", shape) for shape in shapes]
        return np.asarray(along_equations(op, types, attrs, xs, _step))
    reading = Residues(out, len(lead), math.prod(lead))
    operands = [None if x is None else reading.operand(x, shape, "float") for x, shape in zip(xs, shapes, strict=True)]
    found = reading.meaning(op, operands, attrs)
    stacked = max(0, found.ndim - len(out))
    if found.shape[stacked:] != out:
        found = np.broadcast_to(found, found.shape[:stacked] + out)
    return found.astype(np.uint64, copy=False)


def _step(op: str, attrs: Attrs, operands: Sequence[Term | None], xs: Sequence[Any], type: TensorType) -> Array:
    """Compute one operator of an equation."""
    shapes = [None if x is None or x.type is None else x.type.concrete() for x in operands]
    out = type.concrete()
    assert out is not None
    return compute(op, xs, shapes, attrs, out)


_KERNELS: Mapping[str, Kernel] = {**EXCEPTIONS, **PRODUCTS}
