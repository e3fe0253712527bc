"""Match products one to one: equal factors, and a bijection of the bound variables.

The map of bound variables is proposed from the index expressions (`verify.propose.bijections`). Then it is checked to
be a bijection under which guards and indices agree. A range inside another range is cut out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from superopt.ir.dim import Size
from superopt.ops.algebra import Guard
from verify.propose.bijections import propose
from verify.prove.assumptions import Given
from verify.prove.bijection import POINTWISE, bijective, kind, kinds, moved_factor, pairings
from verify.prove.normal_form import Normaliser
from verify.prove.substitution import Substitution
from verify.prove.sums import ONE, Factor, Product, SumOfProducts
from verify.prove.symbolic import Symbolic

__all__ = ["Matching"]

# Sums of coefficients of matching products: positive and negative of the left side, then of the right side.
Count = tuple[Fraction, Fraction, Fraction, Fraction]


class Comparing(Protocol):
    """Decides equality of factors, which may need a nested comparison (`verify.prove.compare.Comparison`)."""

    def same_factor(self, given: Given, left: Factor, right: Factor) -> bool: ...
    def structurally(self, given: Given, left: Factor, right: Factor) -> bool: ...
    def by_cases(self, given: Given, left: SumOfProducts, right: SumOfProducts) -> bool: ...


class Matching:
    """Matches the products of sums of one algebra. `step` is called for each attempt."""

    def __init__(self, algebra: Symbolic, normal: Normaliser, comparing: Comparing, step: Callable[[], None]) -> None:
        self._algebra, self._normal, self._comparing, self._step = algebra, normal, comparing, step

    def matched(self, given: Given, left: SumOfProducts, right: SumOfProducts) -> bool:
        """Return True if all coefficients agree, product by product."""
        zero = Fraction(0)
        classes: list[tuple[Product, Count]] = []

        def same(one: Product, other: Product) -> bool:
            return self.same(given, one, other)

        for side, total in enumerate((left, right)):
            for product in total:
                place = 2 * side + (product.coefficient < 0)
                counts = [zero] * 4
                counts[place] = product.coefficient
                own = (counts[0], counts[1], counts[2], counts[3])
                _collect(classes, product, own, same)
        open_ones = [(p, c) for p, c in classes if not self._settled(c)]
        while open_ones:
            cut = next(
                (
                    (i, j, pieces)
                    for i, (whole, _) in enumerate(open_ones)
                    for j, (part, _) in enumerate(open_ones)
                    if i != j and (pieces := self.cut(given, whole, part)) is not None
                ),
                None,
            )
            if cut is None:
                return False
            i, j, pieces = cut
            (_, many), (part, few) = open_ones[i], open_ones[j]
            rest = [pair for k, pair in enumerate(open_ones) if k not in (i, j)]
            rest.append((part, _sum(many, few)))
            for piece in pieces:
                _collect(rest, piece, _scaled(many, piece.coefficient), same)
            open_ones = [(p, c) for p, c in rest if not self._settled(c)]
        return True

    def _settled(self, count: Count) -> bool:
        more, less, other_more, other_less = count
        if self._algebra.careful:
            return more == other_more and less == other_less
        return more + less == other_more + other_less

    def cut(self, given: Given, whole: Product, part: Product) -> list[Product] | None:
        """Return `whole` minus `part` if `part` has the same factors over a smaller range, else None."""
        if not whole.binders or len(whole.binders) != len(part.binders):
            return None
        whole, part = self._opened(given, whole), self._opened(given, part)
        for mapping, pairing in self._mappings(whole, part):
            inside = given.extended(part.guards)
            # Rewrite `whole` in terms of the bound variables of `part`.
            env = Substitution(mapping)
            moved_guards = env.guards(whole.guards)
            if not all(inside.facts.entails(g) for g in moved_guards):
                continue
            moved = [moved_factor(self._algebra, f, mapping) for f in whole.factors]
            if not self._factors_agree(inside, part.factors, moved, pairing, whole.factors):
                continue
            pieces: list[Product] = []
            conditions: tuple[Guard, ...] = ()
            rest = Product(ONE, tuple(moved), part.binders)
            for guard in part.guards:
                if guard.relation != "<=":
                    return None
                guards = (*moved_guards, *conditions, guard.negated())
                pieces += self._normal.simplified(given, (replace(rest, guards=guards),))
                conditions = (*conditions, guard)
            return pieces
        return None

    def _mappings(self, of: Product, over: Product) -> Iterator[tuple[dict[str, Size], list[tuple[Factor, Factor]]]]:
        """Yield bijections that give the bound variables of `of` in terms of those of `over`, with paired factors."""
        if set(of.binders) & set(over.binders):
            return
        if kinds(of.factors) != kinds(over.factors):
            return
        for pairing in pairings(over.factors, of.factors):
            self._step()
            mapping = propose(pairing, over.binders, of.binders)
            if mapping is not None and bijective(mapping, over.binders, of.binders):
                yield mapping, pairing

    def same(self, given: Given, left: Product, right: Product) -> bool:
        """Return True if left = right up to coefficients, by a bijection of bound variables."""
        self._step()
        if len(left.binders) != len(right.binders):
            return False
        if kinds(left.factors) != kinds(right.factors):
            return False
        left, right = self._opened(given, left), self._opened(given, right)
        if set(left.binders) & set(right.binders):
            right = self._algebra.renamed(right)
        inside = given.extended(left.guards)
        for pairing in pairings(left.factors, right.factors):
            self._step()
            mapping = propose(pairing, left.binders, right.binders)
            if mapping is None or not bijective(mapping, left.binders, right.binders):
                continue
            moved = [moved_factor(self._algebra, f, mapping) for f in right.factors]
            if self.guards_agree(
                given, left.guards, Substitution(mapping).guards(right.guards)
            ) and self._factors_agree(inside, left.factors, moved, pairing, right.factors):
                return True
        return False

    def _opened(self, given: Given, product: Product) -> Product:
        """Rename bound variables that the facts mention."""
        return self._algebra.renamed(product) if set(product.binders) & given.facts.names else product

    def guards_agree(self, given: Given, left: tuple[Guard, ...], right: tuple[Guard, ...]) -> bool:
        inside_left, inside_right = given.facts.extended(left), given.facts.extended(right)
        return all(inside_left.entails(g) for g in right) and all(inside_right.entails(g) for g in left)

    def _factors_agree(
        self,
        given: Given,
        left: Sequence[Factor],
        right: Sequence[Factor],
        pairing: Sequence[tuple[Factor, Factor]],
        before: Sequence[Factor],
    ) -> bool:
        """Return True if the factors are equal.

        `pairing` pairs factors of `left` with factors of `before`; `right` is `before` after substitution. If choices
        and maxima differ one by one, their products are compared.
        """
        moved = dict(zip(map(id, before), right, strict=True))
        plain = [(a, moved[id(b)]) for a, b in pairing if kind(a) != POINTWISE]
        if not all(self._comparing.same_factor(given, a, b) for a, b in plain):
            return False
        ours, theirs = (tuple(f for f in side if kind(f) == POINTWISE) for side in (left, right))
        if len(ours) == len(theirs) and all(
            self._comparing.structurally(given, a, moved[id(b)]) for a, b in pairing if kind(a) == POINTWISE
        ):
            return True
        return self._comparing.by_cases(given, (Product(ONE, ours),), (Product(ONE, theirs),))


def _sum(one: Count, other: Count) -> Count:
    a, b, c, d = (x + y for x, y in zip(one, other, strict=True))
    return a, b, c, d


def _scaled(count: Count, by: Fraction) -> Count:
    """Return the coefficients times `by`; a negative factor exchanges positive and negative ones."""
    a, b, c, d = (abs(by) * x for x in count)
    return (a, b, c, d) if by > 0 else (-b, -a, -d, -c)


def _collect(
    classes: list[tuple[Product, Count]], product: Product, count: Count, same: Callable[[Product, Product], bool]
) -> None:
    for k, (other, so_far) in enumerate(classes):
        if same(other, product):
            classes[k] = (other, _sum(so_far, count))
            return
    classes.append((product, count))
