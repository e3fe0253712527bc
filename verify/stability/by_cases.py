"""Two error bounds at one index, compared case by case, as `verify.prove.compare` compares values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from superopt.ops.algebra import Guard
from verify.prove.assumptions import Given, Sign
from verify.prove.compare import Comparison, free_guards, splits
from verify.prove.normal_form import shown
from verify.prove.sums import Factor, SumOfProducts, children
from verify.prove.symbolic import Symbolic
from verify.stability.inequalities import Inequalities, Inequality
from verify.stability.linear_program import smallest_factor
from verify.stability.monomials import Monomials
from verify.stability.rounding import magnitude

__all__ = ["BoundsByCases", "Factors", "Sides", "factors_in", "first_known", "same_text", "worst"]

_MOST_SIGNS = 4  # nested case splits

Factors: TypeAlias = list[Fraction | None]  # of both directions


@dataclass(frozen=True)
class Sides:
    """The error bounds of both sides at one index, and their values."""

    before: SumOfProducts
    after: SumOfProducts
    left: SumOfProducts
    right: SumOfProducts

    def mapped(self, change: Callable[[SumOfProducts], SumOfProducts]) -> Sides:
        return Sides(*map(change, (self.before, self.after, self.left, self.right)))


class BoundsByCases:
    """Compares bounds by cases, as `verify.prove.compare` compares values."""

    def __init__(self, algebra: Symbolic, comparison: Comparison, fractions: Sequence[str], both: bool) -> None:
        self._algebra, self._comparison, self._fractions, self._both = algebra, comparison, fractions, both

    def compared(self, given: Given, sides: Sides) -> Factors:
        if given.facts.inconsistent():
            return [Fraction(0), Fraction(0)]
        guard = self._open_guard(given, sides)
        if guard is None:
            sides = sides.mapped(lambda total: self._comparison.normal_form(given, total))
            if same_text(sides.before, sides.after):
                return [Fraction(1), Fraction(1)]
            guard = self._open_guard(given, sides)
        if guard is not None:
            if guard.relation == "==":
                cases = [guard, Guard("<=", -guard.value - 1), Guard("<=", guard.value - 1)]
            else:
                cases = [guard, guard.negated()]
            return worst(self.compared(given.extended([case]), sides) for case in cases)
        found = self._by_inequalities(given, sides)
        if None in found and len(given.signs) < _MOST_SIGNS:
            by_signs = self._by_signs(given, sides)
            found = first_known(found, by_signs)
        return found

    def _open_guard(self, given: Given, sides: Sides) -> Guard | None:
        """Return a guard on the output's index that is not decided here."""
        decided = given.facts.entails, given.facts.refutes
        return next((g for g in free_guards(sides.before + sides.after) if not any(d(g) for d in decided)), None)

    def _by_inequalities(self, given: Given, sides: Sides) -> Factors:
        monomials = Monomials(self._algebra, self._comparison, given)
        before, after = monomials.combination(sides.before), monomials.combination(sides.after)
        values = [monomials.combination(magnitude(value)) for value in (sides.left, sides.right)]
        known = [Inequality(values[0], values[1]), Inequality(values[1], values[0])]  # they are proven to be equal
        found: Factors = [None, None if self._both else Fraction(0)]
        for more in Inequalities(self._algebra, self._comparison, given, monomials, self._fractions).stages():
            known += more
            if found[0] is None:
                found[0] = smallest_factor(before, after, known)
            if found[1] is None:
                found[1] = smallest_factor(after, before, known)
            if None not in found:
                break
        return found

    def _by_signs(self, given: Given, sides: Sides) -> Factors:
        """Split on a truth value, a choice or a maximum that mentions no bound variable."""
        split = next(splits(self._algebra, sides.before + sides.after), None)
        if split is None:
            return [None, None]
        cases = []
        for sign in split.cases:
            here = given.assuming(Sign(sign.relation, self._comparison.normal_form(given, sign.value)))
            if here is given:
                return [None, None]
            if not self._comparison.contradictory(here):
                cases.append(here)
        return worst(self.compared(here, sides) for here in cases)


def same_text(one: SumOfProducts, other: SumOfProducts) -> bool:
    """Return True if two sums are equal up to the names of bound variables, as after a move of data."""
    texts = [sorted(f"{p.coefficient} {shown(p)}" for p in side) for side in (one, other)]
    return texts[0] == texts[1]


def factors_in(total: SumOfProducts) -> Iterator[Factor]:
    """Yield all factors in a sum, also those inside others."""
    for product in total:
        for factor in product.factors:
            yield factor
            for _, _, part in children(factor):
                yield from factors_in(part)


def worst(cases: Iterable[Factors]) -> Factors:
    """Return the largest factors of all cases; None where one has none."""
    found: Factors = [Fraction(0), Fraction(0)]
    for case in cases:
        found = [None if a is None or b is None else max(a, b) for a, b in zip(found, case, strict=True)]
        if found == [None, None]:
            break
    return found


def first_known(found: Factors, others: Factors) -> Factors:
    """Return the factors, with those of `others` where there are none."""
    return [b if a is None else a for a, b in zip(found, others, strict=True)]
