"""Numbers in files that stand for square roots: 1.4142135 in float32 is sqrt(2), rounded.

Such a literal keeps a proof from succeeding that needs the root. So an equation may be proven for the roots that its
literals are the correctly rounded values of. Then it holds for the literals within their rounding.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from superopt.evaluate import numpy_dtype
from superopt.ir.infer import make
from superopt.ir.rule import Rule
from superopt.ir.term import Term, map_terms

__all__ = ["with_roots"]

_MAX_DENOMINATOR, _MAX_PRODUCT = 64, 4096  # of the fraction below the root, as people write them


def with_roots(rule: Rule, dtype: str) -> Rule:
    """Return the rule with roots for its real literals of element type `dtype` that are rounded roots."""

    def place(term: Term, inputs: tuple[Term | None, ...]) -> Term:
        if term.op == "ConstantOfShape":
            square = _square(float(str(term.attr("value"))), dtype)
            if square is not None:
                return make("Sqrt", (make(term.op, (), {**dict(term.attrs), "value": square}),))
        return term if inputs == term.inputs else make(term.op, inputs, dict(term.attrs))

    sides = map_terms((*rule.lhs, *rule.rhs), place)
    return Rule(sides[: len(rule.lhs)], sides[len(rule.lhs) :])


def _square(value: float, dtype: str) -> float | None:
    """Return the number of which `value` is the root in the element type, or None."""
    if not math.isfinite(value) or value <= 0 or _simple(value) == value:
        return None
    square = _simple(value * value)
    if square is None or float(square) != square:
        return None
    rounded = float(np.asarray(math.sqrt(square)).astype(numpy_dtype(dtype)))
    return float(square) if rounded == value else None


def _simple(value: float) -> Fraction | None:
    """Return the fraction with a small denominator that a number is nearest to, also for its reciprocal, or None."""
    if value <= 0 or not 1e-6 < value < 1e6:
        return None
    direct = Fraction(value).limit_denominator(_MAX_DENOMINATOR)
    inverse = Fraction(1 / value).limit_denominator(_MAX_DENOMINATOR)
    found = [
        f
        for f in (direct, 1 / inverse if inverse else Fraction(0))
        if f and f.numerator * f.denominator <= _MAX_PRODUCT
    ]
    return min(found, key=lambda f: abs(f - Fraction(value)), default=None)
