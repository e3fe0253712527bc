"""Exponentials that may overflow: bounds on rounding errors say nothing about results beyond the largest number.

e^89 exceeds float32. An `Exp` of the right side must exponentiate values that the left side exponentiates too, or
values that are bounded by form; or it must be the result, which is beyond the range for the left side as well.
Operators defined by exponentials, such as Softmax, do not count: the runtime avoids large exponentials in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from superopt.ir.term import Term, topological

__all__ = ["before_results", "exponents", "is_bounded"]

# Half of the largest exponent, 88, is left for sums and products.
_MAX_SHIFT = 44


def exponents(terms: Iterable[Term]) -> Iterator[Term]:
    """Yield the operands of all `Exp` operators."""
    for term in topological(tuple(terms)):
        if term.op == "Exp" and term.inputs[0] is not None:
            yield term.inputs[0]


def before_results(terms: Iterable[Term]) -> Iterator[Term]:
    """Yield the terms without those exponentials that are the results."""
    for term in terms:
        yield from (i for i in term.inputs if i is not None) if term.op == "Exp" else (term,)


def is_bounded(exponent: Term) -> bool:
    """Return True for x - ReduceMax(x), and for x - (ReduceMax(x) - c) with a number c <= 44."""
    if exponent.op != "Sub":
        return False
    value, largest = exponent.inputs
    if largest is not None and largest.op == "Sub":
        largest, number = largest.inputs
        if number is None or not _at_most(number, _MAX_SHIFT):
            return False
    return largest is not None and largest.op == "ReduceMax" and largest.inputs[0] is value


def _at_most(term: Term, bound: int) -> bool:
    """Return True for a constant without an element above the bound."""
    if term.op == "Constant":
        values = term.attr("value_floats")
        return isinstance(values, tuple) and all(isinstance(c, float) and c <= bound for c in values)
    value = term.attr("value") if term.op == "ConstantOfShape" else None
    return isinstance(value, float) and value <= bound
