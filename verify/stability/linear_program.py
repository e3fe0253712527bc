"""The smallest factor between two bounds, by linear programming.

Monomials are non-negative unknowns, and the inequalities between them are linear. E(right) <= K * E(left) holds if
K * E(left) - E(right) is a sum of inequalities, each times a number >= 0, and of monomials times numbers >= 0 (Farkas'
lemma). Z3 looks for these numbers. They are checked here in rational arithmetic, so no answer of Z3 is trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import z3

from verify.prove.facts import Shared
from verify.stability.inequalities import Inequality
from verify.stability.monomials import Combination

__all__ = ["LinearPrograms"]

_RESOURCES = 20_000_000


class LinearPrograms:
    """The linear programs of one analysis. They use the Z3 context of its facts: another one takes 4 ms to make."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def smallest_factor(self, left: Combination, right: Combination, known: Sequence[Inequality]) -> Fraction | None:
        """Return a K with right <= K * left, the smallest that follows from the inequalities; None if none is found."""
        if not any(right.values()):
            return Fraction(0)
        context = self._shared.context
        solver = z3.Optimize(ctx=context)
        solver.set("rlimit", _RESOURCES)
        solver.set("ctrl_c", False)
        factor = z3.Real("K", context)
        weights = [z3.Real(f"w{k}", context) for k in range(len(known))]
        solver.add(factor >= 0, *(weight >= 0 for weight in weights))
        number = cache(lambda value: z3.RatVal(value.numerator, value.denominator, context))  # few differ
        for of_left, of_right, of_known in _columns(left, right, known).values():
            terms = [weights[k] * number(-c) for k, c in of_known]
            solver.add(z3.Sum([factor * number(of_left), *terms]) >= number(of_right))
        solver.minimize(factor)
        if solver.check() != z3.sat:
            return None
        model = solver.model()
        found = [_value(model, weight) for weight in weights]
        best = _value(model, factor)
        return best if _follows(left, right, known, best, found) else None


_Column = tuple[Fraction, Fraction, list[tuple[int, Fraction]]]


def _columns(left: Combination, right: Combination, known: Sequence[Inequality]) -> dict[int, _Column]:
    """Return for each monomial its coefficients in left, right, and in `more` - `less` of each inequality."""
    found: dict[int, _Column] = {}

    def column(number: int) -> _Column:
        zero = Fraction(0)
        return found.setdefault(number, (left.get(number, zero), right.get(number, zero), []))

    for number in (*left, *right):
        column(number)
    for k, inequality in enumerate(known):
        for number, coefficient in inequality.more.items():
            column(number)[2].append((k, coefficient))
        for number, coefficient in inequality.less.items():
            column(number)[2].append((k, -coefficient))
    return found


def _follows(
    left: Combination, right: Combination, known: Sequence[Inequality], factor: Fraction, weights: Sequence[Fraction]
) -> bool:
    """Return True if factor * left - right - sum of weights * inequalities has no negative coefficient."""
    if factor < 0 or any(weight < 0 for weight in weights):
        return False
    columns = _columns(left, right, known).values()
    return all(factor * a - b - sum(weights[k] * c for k, c in parts) >= 0 for a, b, parts in columns)


def _value(model: z3.ModelRef, unknown: z3.ArithRef) -> Fraction:
    found = model.eval(unknown, model_completion=True)
    if not z3.is_rational_value(found):
        return Fraction(-1)  # no such weight: refused by the check
    return Fraction(found.numerator_as_long(), found.denominator_as_long())
