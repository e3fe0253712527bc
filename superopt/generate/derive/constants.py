"""Folds constants that hold one number everywhere, as the optimizer folds constants when it reads a model.

The result is exact or is not folded: 1 / 4 becomes 0.25, and 1 / 3 stays a division. Zeros and Ones are the only names
of the constants 0 and 1, as in a model that was read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from superopt.ir.operator import fits
from superopt.ir.term import Attr, Term
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.properties import rearranges

__all__ = ["folded", "is_folded"]

_NUMBERS = {"Zeros": 0, "Ones": 1}
_LEAVES = {*_NUMBERS, "ConstantOfShape"}


def is_folded(term: Term) -> bool:
    """Return True if `folded` may have made the term of another one."""
    return term.op in _LEAVES


def _root(x: Fraction) -> Fraction | None:
    """Return the square root of a square, or None."""
    found = Fraction(math.isqrt(max(x.numerator, 0)), math.isqrt(x.denominator))
    return found if found * found == x else None


def _power(x: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1 or abs(exponent) > 8 or (x == 0 and exponent < 0):
        return None
    return Fraction(x**exponent.numerator)


_FUNCTIONS: Mapping[str, Callable[..., Fraction | None]] = {
    "Add": lambda *xs: sum(xs, Fraction(0)),
    "Sum": lambda *xs: sum(xs, Fraction(0)),
    "Sub": lambda x, y: x - y,
    "Mul": lambda x, y: x * y,
    "Div": lambda x, y: x / y if y else None,
    "Reciprocal": lambda x: 1 / x if x else None,
    "Neg": lambda x: -x,
    "Abs": abs,
    "Max": max,
    "Min": min,
    "Relu": lambda x: max(x, Fraction(0)),
    "Sqrt": _root,
    "Pow": _power,
}

# Functions of a number and of how many of it are reduced to one element.
_REDUCTIONS: Mapping[str, Callable[[Fraction, int], Fraction | None]] = {
    "ReduceSum": lambda x, count: x * count,
    "ReduceMean": lambda x, count: x,
    "ReduceMax": lambda x, count: x,
    "ReduceMin": lambda x, count: x,
    "ReduceProd": lambda x, count: _power(x, Fraction(count)),
}


def folded(term: Term) -> Term:
    """Return the constant that a term of known sizes equals, or the term. Its inputs are folded already."""
    if not (term.op == "ConstantOfShape" or term.inputs) or any(i is None or i.op not in _LEAVES for i in term.inputs):
        return term
    type, sizes = term.type, None if term.type is None else term.type.concrete()
    if type is None or sizes is None:
        return term
    number = _number(term, type)
    if number is None:
        return term
    for op, own in _NUMBERS.items():
        if number == own:
            return Term.of(op, (), {"shape": sizes}, (type,))
    attrs: dict[str, Attr] = {"shape": sizes, "value": float(number)}
    return term if term.op == "ConstantOfShape" else Term.of("ConstantOfShape", (), attrs, (type,))


def _number(term: Term, type: TensorType) -> Fraction | None:
    """Return the number that all elements of a term equal, or None if it is not known or has no exact value."""
    if term.op == "ConstantOfShape":
        value = term.attr("value")
        if not isinstance(value, (int, float)):
            return None  # a variable of a rule
        return None if value == 0 and math.copysign(1, value) < 0 else Fraction(value)
    if term.op in _NUMBERS:
        return Fraction(_NUMBERS[term.op])
    leaves = [i for i in term.inputs if i is not None and i.type is not None and i.op in _LEAVES]
    numbers = [number for i in leaves if i.type is not None and (number := _number(i, i.type)) is not None]
    if len(numbers) < len(term.inputs):
        return None
    if rearranges(term.op):
        return numbers[0] if len(set(numbers)) == 1 else None
    if type.dtype not in FLOAT_DTYPES:
        return None
    if term.op in _REDUCTIONS:
        sizes = leaves[0].type.concrete() if leaves[0].type is not None else None
        size, own = (math.prod(some or ()) for some in (sizes, type.concrete()))
        found = _REDUCTIONS[term.op](numbers[0], size // own) if size and own else None
    else:
        found = _FUNCTIONS[term.op](*numbers) if term.op in _FUNCTIONS else None
    return found if found is not None and Fraction(float(found)) == found and fits(float(found), type.dtype) else None
