"""One window as terms over typed leaves: variables for run-time values and weights, and the constants that matter.

A constant matters if it is a single real number that a person wrote (0.5, 1e-05, sqrt(2)): rules may depend on it.
Every other constant is a weight. A bias of zeros is one, too: what holds for every bias holds for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from superopt.ir.infer import make, remake
from superopt.ir.term import CLOSED_FORM, Attr, Term, var
from superopt.ir.types import FLOAT_DTYPES

__all__ = ["Piece", "extract", "literal"]

_MAX_DENOMINATOR, _MAX_PRODUCT = 64, 4096
_SIGNIFICANT_DIGITS = 5
_FLOAT32_ROUNDING = 2.0**-23


@dataclass(frozen=True)
class Piece:
    """A window at the sizes of its model: typed outputs over Var leaves, of which `weights` are constant."""

    outputs: tuple[Term, ...]
    weights: frozenset[Term]


def literal(term: Term, weights: Mapping[str, npt.NDArray[Any]]) -> Term | None:
    """Return a constant as it stands in a window, or None if it is a weight. `weights` has the arrays by hash."""
    type = term.type
    if type is None or type.dtype not in FLOAT_DTYPES:
        return None
    shape = type.concrete()
    if shape is None or math.prod(shape) != 1:
        return None
    if term.op in CLOSED_FORM:
        return term
    if term.op != "Const":
        return None
    value = float(np.asarray(weights[str(term.attr("hash"))]).astype(np.float64).reshape(()))
    if not math.isfinite(value) or not is_written(value):
        return None
    if value in (0.0, 1.0) and math.copysign(1, value) > 0:
        return make("Ones" if value else "Zeros", (), {"shape": shape}, type.dtype)
    return make("ConstantOfShape", (), {"shape": shape, "value": value}, type.dtype)


def is_written(value: float) -> bool:
    """Return True for numbers that people write: few digits, simple fractions and their roots, and with pi; and limits.

    Of the float32 numbers that training finds, fewer than one in a hundred looks like that.
    """
    if abs(value) == float(np.finfo(np.float32).max) or value == float(f"{value:.{_SIGNIFICANT_DIGITS}g}"):
        return True
    if value == float(np.float32(f"{value:.{_SIGNIFICANT_DIGITS}g}")):
        return True
    square = value * value
    return any(map(_is_simple, (value, square, square * math.pi)))


def _is_simple(value: float) -> bool:
    """Return True for a fraction p/q with a small product of p and q, as far as a float32 can tell."""
    for number in (value, 1 / value):
        found = Fraction(number).limit_denominator(_MAX_DENOMINATOR)
        if math.isclose(number, found, rel_tol=_FLOAT32_ROUNDING):
            return abs(found.numerator * found.denominator) <= _MAX_PRODUCT
    return False


def extract(members: Sequence[Term], outputs: Sequence[Term], weights: Mapping[str, npt.NDArray[Any]]) -> Piece:
    """Return the operators `members` with the live values `outputs` as a piece. Raises IllTyped."""
    inside = set(members)
    new: dict[Term, Term] = {}
    constants: set[Term] = set()

    def leaf(term: Term) -> Term:
        if term.is_constant:
            found = literal(term, weights)
            if found is not None:
                return found
        variable = var(f"v{len(new)}", term.type)
        if term.is_constant:
            constants.add(variable)
        return variable

    def value(term: Term | None) -> Term | None:
        if term is None:
            return None
        if term not in new:
            (node,) = term.inputs if term.op == "Out" else (term,)
            assert node is not None
            if node in new and node in inside:
                index = term.attr("index")
                assert isinstance(index, int)
                new[term] = new[node].out(index)
            else:
                new[term] = leaf(term)
        return new[term]

    for term in members:
        new[term] = remake(term, tuple(map(value, term.inputs)))
    found = tuple(value(term) for term in outputs)
    return Piece(tuple(term for term in found if term is not None), frozenset(constants))


def mapped(value: Attr, change: Any) -> Attr:
    """Return an attribute with `change` applied to each of its entries."""
    return tuple(mapped(item, change) for item in value) if isinstance(value, tuple) else change(value)
