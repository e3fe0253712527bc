"""Numbers in files that stand for others: in float32, 1.4142135 is sqrt(2) rounded, and 0.16666667 is 1/6 rounded.

Such literals keep a proof from succeeding. So an equation may also be proven for other readings of its literals: for
the simple fractions and roots that they are the correctly rounded values of; and for the products and quotients of the
other side's constants that they are the values of, up to the roundings with which a tool has computed them. Then the
equation holds for the literals up to the difference from what they stand for. But an operand of a function that jumps
is the number that it is: x to the power of 3 and of the next number are far apart if x is negative.

An equation over real numbers has no literals for truth values: a mask that hides nothing is a variable there. Where the
mask's value is needed, a comparison of two literals stands for it.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from superopt.evaluate import can_evaluate, evaluate, numpy_dtype
from superopt.ir.infer import OPERATORS, REAL_ATTRS, make
from superopt.ir.rule import Rule
from superopt.ir.term import CLOSED_FORM, Term, map_terms, topological
from superopt.properties import jumps
from superopt.runtime import unit_roundoff

__all__ = ["Reading", "has_literals", "readings", "with_masks"]

_MAX_DENOMINATOR, _MAX_PRODUCT = 64, 4096  # of a fraction, also below the root, as people write them
_NEAR = 1e-12  # relative, of a number computed in float64 and the fraction that it is
_MAX_FACTORS = 8  # constants of one side that are combined


class Reading(NamedTuple):
    """An equation with other numbers for its literals, and the largest relative difference of the numbers."""

    rule: Rule
    error: float


class _Number(NamedTuple):
    """A constant of one side: its value, exactly if it is a literal, and the count of the operations that give it."""

    value: float
    exact: Fraction | None
    operations: int


@lru_cache(maxsize=1 << 12)
def readings(rule: Rule, dtype: str) -> tuple[Reading, ...]:
    """Return the readings of an equation over tensors of element type `dtype`, without that as it stands."""
    found = (_as_written(rule, dtype), _as_computed(rule, dtype))
    return tuple(dict.fromkeys(one for one in found if one.rule != rule))


def with_masks(rule: Rule, terms: Mapping[str, Term]) -> Rule:
    """Return an equation with the values of the masks among the `terms` that its variables stand for.

    These are truth values that are all equal: 1 = 1 stands for true, 1 < 1 for false.
    """
    masks = {name: mask for name, term in terms.items() if (mask := _mask(term)) is not None}
    if not masks:
        return rule

    def place(term: Term, inputs: tuple[Term | None, ...]) -> Term:
        if term.op == "Var" and term.attr("name") in masks:
            return masks[str(term.attr("name"))]
        return term if inputs == term.inputs else make(term.op, inputs, dict(term.attrs))

    return _rule(rule, map_terms((*rule.lhs, *rule.rhs), place))


def _mask(term: Term) -> Term | None:
    """Return a comparison that has the shape and the truth values of a closed form, or None for other terms."""
    shape = None if term.type is None else term.type.concrete()
    is_bool = term.type is not None and term.type.dtype == "bool"
    if shape is None or not is_bool or term.op not in ("ConstantOfShape", "Ones", "Zeros"):
        return None
    ones = make("Ones", (), {"shape": shape})
    return make("Equal" if dict(term.attrs).get("value", term.op == "Ones") else "Less", (ones, ones))


def _as_written(rule: Rule, dtype: str) -> Reading:
    """Read each literal as the fraction or the root that it is the correctly rounded value of."""
    fixed = _fixed((*rule.lhs, *rule.rhs))
    known: dict[tuple[float, str], Fraction | None] = dict.fromkeys(
        (value, each) for value in fixed for each in (dtype, "float")
    )
    error = 0.0

    def root_of(value: float, dtype: str) -> float | None:
        return None if value in fixed else _square(value, dtype)

    def stands_for(value: float, dtype: str) -> Fraction | None:
        nonlocal error
        if (value, dtype) not in known:
            known[value, dtype] = found = _simple_rounded_to(value, dtype)
            if found != value and (found is not None or _square(value, dtype) is not None):
                error = max(error, unit_roundoff(numpy_dtype(dtype)))
        return known[value, dtype]

    sides = _read((*rule.lhs, *rule.rhs), dtype, stands_for, root_of)
    return Reading(_rule(rule, sides), error)


def _as_computed(rule: Rule, dtype: str) -> Reading:
    """Read each literal of one side as the product or quotient of the other side's constants that it is a value of.

    Where each side's literals may be read as the other's, those of the left side are.
    """
    error = 0.0

    def read(side: tuple[Term, ...], other: tuple[Term, ...]) -> tuple[Term, ...]:
        nonlocal error
        new: dict[float, Fraction | None] = {}
        for value in _literals(side) - _literals(other) - _fixed(side):
            stands_for = _computed(value, other, unit_roundoff(numpy_dtype(dtype)))
            if stands_for is not None:
                new[value] = stands_for
                error = max(error, float(abs(stands_for / Fraction(value) - 1)))
        return _read(side, dtype, partial(_known, new), lambda *_: None)

    left = read(rule.lhs, rule.rhs)
    return Reading(_rule(rule, (*left, *read(rule.rhs, left))), error)


def _computed(value: float, side: tuple[Term, ...], roundoff: float) -> Fraction | None:
    """Return the number that one or two constants of `side` give, if `value` is that up to their roundings.

    The reciprocal of a constant counts too: tools divide by sqrt(d), or multiply by a number that they have rounded.
    """
    numbers = _numbers(side)
    for one in numbers:
        if one.operations and (found := _exactly(one)) is not None and _is_near(value, found, one.operations, roundoff):
            return found
    for one, other in itertools.product([_Number(1.0, Fraction(1), 0), *numbers], numbers):
        operations = one.operations + other.operations + 1
        for combine in (operator.mul, operator.truediv):
            exact = combine(one.exact, other.exact) if one.exact and other.exact else None
            found = _exactly(_Number(combine(one.value, other.value), exact, operations))
            if found is not None and _is_near(value, found, operations, roundoff):
                return found
    return None


def _exactly(number: _Number) -> Fraction | None:
    if number.exact is not None:
        return number.exact
    simple = _simple(number.value)
    return simple if simple is not None and abs(simple - Fraction(number.value)) <= _NEAR * simple else None


def _is_near(value: float, number: Fraction, operations: int, roundoff: float) -> bool:
    return abs(Fraction(value) - number) <= operations * Fraction(roundoff) * abs(number)


def _numbers(side: tuple[Term, ...]) -> list[_Number]:
    """Return the constants of a side that are one number other than 0 and 1, at most `_MAX_FACTORS`."""
    closed: dict[Term, int] = {}  # and the count of operations
    found: dict[float, _Number] = {}
    for value in sorted(_literals(side)):
        found[value] = _Number(value, Fraction(value), 0)
    for term in topological(side):
        if term.op in CLOSED_FORM:
            closed[term] = 0
        elif term.inputs and all(i in closed for i in term.inputs) and can_evaluate(term):
            closed[term] = 1 + sum(closed[i] for i in term.inputs if i is not None)
            result = _value(term)
            if result is not None:
                found.setdefault(result, _Number(result, None, closed[term]))
    return [number for value, number in found.items() if value not in (0.0, 1.0)][:_MAX_FACTORS]


def _value(term: Term) -> float | None:
    """Return the number that all elements of a closed term are, or None."""
    try:
        with np.errstate(all="ignore"):
            array = np.asarray(evaluate([term], {}, {})[0], dtype=np.float64)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return None
    one = float(array.flat[0]) if array.size else math.nan
    return one if math.isfinite(one) and bool((array == one).all()) else None


def _literals(side: tuple[Term, ...]) -> set[float]:
    return {value for term in topological(side) for _, value in _real_attrs(term)}


def _fixed(side: tuple[Term, ...]) -> set[float]:
    """Return the literals that are operands of functions that jump."""
    users = (term for term in topological(side) if term.op in OPERATORS and jumps(term.op))
    return {value for user in users for i in user.inputs if i is not None for _, value in _real_attrs(i)}


def has_literals(term: Term) -> bool:
    """Return True if a term has real numbers among its attributes, other than zeros."""
    return any(True for _ in _real_attrs(term))


def _real_attrs(term: Term) -> Iterator[tuple[str, float]]:
    """Yield the names and values of real numbers among the attributes, zeros left out."""
    for name, value in term.attrs:
        if (name in REAL_ATTRS or name == "value") and isinstance(value, float) and math.isfinite(value) and value:
            yield name, value


def _read(
    side: tuple[Term, ...],
    dtype: str,
    number: Callable[[float, str], Fraction | None],
    square: Callable[[float, str], float | None],
) -> tuple[Term, ...]:
    """Return a side with other numbers for its literals, by their values and element types; attributes are in float32.

    Operands for which there is a `square` become its root.
    """

    def place(term: Term, inputs: tuple[Term | None, ...]) -> Term:
        real = dict(_real_attrs(term))
        own_dtype = dtype if term.op == "ConstantOfShape" else "float"
        found = {name: number(value, own_dtype) for name, value in real.items()}
        if term.op == "ConstantOfShape" and real and found["value"] is None:
            below = square(real["value"], dtype)
            if below is not None:
                return make("Sqrt", (make(term.op, (), {**dict(term.attrs), "value": below}),))
        new: dict[str, Any] = {name: _plain(one) for name, one in found.items() if one is not None}
        if inputs == term.inputs and all(real[name] == one for name, one in new.items()):
            return term
        return make(term.op, inputs, {**dict(term.attrs), **new})

    return map_terms(side, place)


def _known(numbers: Mapping[float, Fraction | None], value: float, _: str) -> Fraction | None:
    return numbers.get(value)


def _plain(number: Fraction) -> float | Fraction:
    """Return a number as a float if that is exact: other terms hold floats, and equal terms must be one term."""
    return float(number) if float(number) == number else number


def _rule(rule: Rule, sides: tuple[Term, ...]) -> Rule:
    return Rule(sides[: len(rule.lhs)], sides[len(rule.lhs) :])


def _simple_rounded_to(value: float, dtype: str) -> Fraction | None:
    """Return the simple fraction of which `value` is the correctly rounded value in the element type, or None."""
    found = _simple(value)
    return found if found is not None and _rounded(float(found), dtype) == value else None


def _square(value: float, dtype: str) -> float | None:
    """Return the number of which `value` is the root in the element type, or None."""
    square = _simple(value * value)
    if square is None or float(square) != square:
        return None
    return float(square) if _rounded(math.sqrt(square), dtype) == value else None


def _rounded(value: float, dtype: str) -> float:
    return float(np.asarray(value).astype(numpy_dtype(dtype)))


def _simple(value: float) -> Fraction | None:
    """Return the fraction with a small denominator that a number is nearest to, also for its reciprocal, or None."""
    if value < 0:
        found = _simple(-value)
        return None if found is None else -found
    if not 1e-6 < value < 1e6:
        return None
    direct = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
    inverse = Fraction(1 / value).limit_denominator(_MAX_DENOMINATOR)
    nearest = [
        f
        for f in (direct, 1 / inverse if inverse else Fraction(0))
        if f and f.numerator * f.denominator <= _MAX_PRODUCT
    ]
    return min(nearest, key=lambda f: abs(f - Fraction(value)), default=None)
