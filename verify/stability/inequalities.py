"""Inequalities between monomials: all follow from the triangle inequality.

    |a + b| <= |a| + |b|      |a| <= |a + b| + |b|      |sum of v| <= sum of |v|

With two monomials |v| and |w| over the same bound variables, |v|, |c w| and |v - c w| are each at most the sum of the
others, for the c with which a product cancels.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from superopt.ir.dim import Size
from verify.propose.bijections import propose
from verify.prove.assumptions import Given
from verify.prove.bijection import bijective, kinds
from verify.prove.bound_variables import limits
from verify.prove.compare import Comparison
from verify.prove.substitution import Substitution
from verify.prove.sums import ONE, Access, Product, SumOfProducts
from verify.prove.symbolic import Symbolic
from verify.stability.monomials import Combination, Monomial, Monomials

__all__ = ["Inequalities", "Inequality"]

_MOST_PAIRED = 40  # sums that are compared in pairs
_MOST_POINTS = 16  # of a sum that is written out


@dataclass(frozen=True)
class Inequality:
    """The statement that one combination of monomials is at most another."""

    less: Combination
    more: Combination


class Inequalities:
    """Finds triangle inequalities among monomials, in stages: the next stage is more expensive."""

    def __init__(
        self,
        algebra: Symbolic,
        comparison: Comparison,
        given: Given,
        monomials: Monomials,
        fractions: Collection[str] = (),
    ) -> None:
        self._algebra, self._comparison, self._given, self._monomials = algebra, comparison, given, monomials
        self._fractions = fractions  # tensors with elements from 0 to 1
        self._done = 0

    def stages(self) -> Iterator[list[Inequality]]:
        """Yield the inequalities of each monomial, those of pairs of sums, those between ranges, and short sums."""
        yield list(self._of_each())
        sums = [k for k, m in enumerate(self._monomials.found) if not m.single][:_MOST_PAIRED]
        pairs = itertools.combinations(sums, 2)
        found = [more for i, j in pairs for more in self._of_two(i, j)]
        yield [*found, *self._of_each()]
        yield [*self._of_ranges(), *self._of_each()]
        yield [*self._of_points(), *self._of_each()]

    def _of_each(self) -> Iterator[Inequality]:
        while self._done < len(self._monomials.found):  # `_of_one` may add monomials
            yield from self._of_one(self._done)
            self._done += 1

    def _of_ranges(self) -> Iterator[Inequality]:
        """Yield that a sum over a range is the sum over a part of it and the sum over the rest."""
        found = self._monomials.found
        for one, other in self._monomials.alike():
            for whole, part in ((one, other), (other, one)):
                rest = self._comparison.cut(self._given, found[whole].product, found[part].product)
                if rest is not None:
                    pieces = _total([{part: ONE}, self._monomials.combination(rest)])
                    yield from _equal({whole: ONE}, pieces)
                    break

    def _of_points(self) -> Iterator[Inequality]:
        """Yield that a sum over few points is the sum of what stands at each: indices such as 2 k + l need no names."""
        for number, monomial in enumerate(list(self._monomials.found)):
            points = list(itertools.islice(_points(monomial), _MOST_POINTS + 1))
            if monomial.binders and 0 < len(points) <= _MOST_POINTS:
                moves = [Substitution(point) for point in points]
                whole = replace(monomial.product, binders=())
                parts = [self._monomials.combination(move.sum(self._algebra, (whole,))) for move in moves]
                yield from _equal({number: ONE}, _total(parts))

    def _expanded(self, monomial: Monomial, product: Product) -> Combination:
        """Return the sum of |product| over the bound variables of the monomial and of the product."""
        alone: SumOfProducts = (Product(product.coefficient, product.factors),)
        guards = monomial.guards + product.guards
        return self._monomials.of_value(monomial.binders + product.binders, guards, alone)

    def _of_one(self, number: int) -> Iterator[Inequality]:
        monomials, comparison, given = self._monomials, self._comparison, self._given
        monomial = monomials.found[number]
        if monomial.single:
            return
        parts = [self._expanded(monomial, p) for p in monomial.value]
        whole = {number: ONE}
        yield Inequality(whole, _total(parts))
        if comparison.positive(given.extended(monomial.guards), monomial.value):  # nothing cancels
            yield Inequality(_total(parts), whole)
            return
        for (k, one), (m, other) in itertools.permutations(enumerate(monomial.value), 2):
            if len(parts) == 2 and self._is_fraction(one, other):  # |a - a t| + |a t| = |a| for t from 0 to 1
                yield from _equal(_total([whole, parts[m]]), parts[k])
        pieces = monomials.pieces(number)
        if pieces is not None:
            yield from _equal(whole, pieces)
        first = monomial.value[0]
        if first.binders and all((p.binders, p.guards) == (first.binders, first.guards) for p in monomial.value):
            summands = tuple(Product(p.coefficient, p.factors) for p in monomial.value)
            outside = monomial.binders + first.binders, monomial.guards + first.guards
            yield Inequality(whole, monomials.of_value(*outside, summands))  # one sum of v + w, not two sums
        for k, product in enumerate(monomial.value):
            if product.binders:
                continue
            others = [part for j, part in enumerate(parts) if j != k]
            yield Inequality(parts[k], _total([whole, *others]))

    def _is_fraction(self, whole: Product, other: Product) -> bool:
        """Return True if the other product is minus a fraction of `whole`."""
        rest = list(other.factors)
        for factor in whole.factors:
            if factor in rest:
                rest.remove(factor)
        if len(rest) != 1 or len(other.factors) != len(whole.factors) + 1 or whole.binders + other.binders:
            return False
        exact = whole.coefficient == -other.coefficient and whole.guards == other.guards
        return exact and isinstance(rest[0], Access) and rest[0].tensor in self._fractions

    def _of_two(self, i: int, j: int) -> Iterator[Inequality]:
        algebra, comparison, given, monomials = self._algebra, self._comparison, self._given, self._monomials
        one, other = monomials.found[i], monomials.found[j]
        if len(one.binders) != len(other.binders):
            return
        if set(one.binders) & set(other.binders):
            renamed = algebra.renamed(other.product)
            (factor,) = renamed.factors
            other = Monomial(renamed.binders, renamed.guards, factor.arguments[0])  # type: ignore[union-attr]
        here = given.extended(one.guards)
        for ratio, value in _aligned(algebra, comparison, given, one, other):
            scaled = tuple(replace(p, coefficient=-ratio * p.coefficient) for p in value)
            rest = comparison.normal_form(here, one.value + scaled)
            if len(rest) >= len(one.value) + len(value):
                continue
            three = {i: ONE}, {j: abs(ratio)}, monomials.of_value(one.binders, one.guards, rest)
            for k, less in enumerate(three):
                yield Inequality(less, _total([more for m, more in enumerate(three) if m != k]))
            return


def _aligned(
    algebra: Symbolic, comparison: Comparison, given: Given, one: Monomial, other: Monomial
) -> Iterator[tuple[Fraction, SumOfProducts]]:
    """Yield ratios of coefficients of equal products, and the other value over the bound variables of `one`."""
    for ours in one.value:
        for theirs in other.value:
            if len(ours.binders) != len(theirs.binders) or kinds(ours.factors) != kinds(theirs.factors):
                continue
            mapping = propose([((ours,), (theirs,))], one.binders, other.binders)
            if mapping is None or not bijective(mapping, one.binders, other.binders):
                continue
            env = Substitution(mapping)
            if not comparison.guards_agree(given, one.guards, env.guards(other.guards)):
                continue
            here = given.extended(one.guards)
            value = env.sum(algebra, other.value) if mapping else other.value
            moved = next(iter(env.sum(algebra, (theirs,)))) if mapping else theirs
            if comparison.same(here, replace(ours, coefficient=ONE), replace(moved, coefficient=ONE)):
                yield ours.coefficient / theirs.coefficient, value


def _points(monomial: Monomial) -> Iterator[dict[str, Size]]:
    """Yield the values of the bound variables, none if the ranges are not given by numbers."""
    ranges = []
    for name in monomial.binders:
        found = limits(name, monomial.guards)
        lowers, uppers = ([n for n in ns if isinstance(n, int)] for ns in (found.lowers, found.uppers))
        if not lowers or not uppers:
            return
        ranges.append(range(max(lowers), min(uppers)))
    for values in itertools.product(*ranges):
        yield dict(zip(monomial.binders, values, strict=True))


def _equal(one: Combination, other: Combination) -> list[Inequality]:
    return [Inequality(one, other), Inequality(other, one)]


def _total(parts: list[Combination]) -> Combination:
    total: Combination = {}
    for part in parts:
        for k, coefficient in part.items():
            total[k] = total.get(k, Fraction(0)) + coefficient
    return total
