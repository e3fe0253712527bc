"""Equality of two sums, for all sizes and indices that satisfy the facts.

    1. split into cases on guards that mention no bound variable,
    2. bring both sides into normal form,
    3. match the products: equal factors, and a bijection of the bound variables under which the guards are equivalent;
       the coefficients of what matches must agree; a range that lies in another is cut out of it,
    4. where that fails, split on a truth value, a choice or a maximum that mentions no bound variable; without such a
       split ask whether the difference is 0 by the signs of the cases; at last multiply by a denominator.
The bijection is read off the index expressions (a proposal, `verify.bijection`); that it is one, that guards agree and
that indices are equal is then checked. So a bad proposal costs an `Unknown`, never a wrong `Proved`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from superopt.ir.dim import Size, symbols_of
from verify.algebra import Guard
from verify.bijection import POINTWISE, bijective, kind, kinds, moved_factor, pairings, propose
from verify.facts import Facts, Shared
from verify.floating import COMMUTATIVE
from verify.given import DEFINED, Given, Sign, partial_applications
from verify.normal import Normaliser
from verify.reals import RealQuery
from verify.scope import mentioned, mentioned_by, projected
from verify.signs import Signs
from verify.symbolic import (
    Access,
    Apply,
    Bound,
    Choice,
    Factor,
    Maximum,
    Moved,
    Product,
    Quantity,
    Real,
    Repeated,
    Sum,
    Symbolic,
    children,
    single,
)  # fmt: skip

__all__ = ["Comparison", "Effort"]

ONE = Fraction(1)
_MOST_SIGNS = 12  # cases within cases
_DEEPEST = 40  # comparisons within comparisons
# Coefficients of what matches: positive and negative ones of the left side, and of the right side.
Count = tuple[Fraction, Fraction, Fraction, Fraction]


class Effort(Exception):
    """The comparison took more steps than it may."""


@dataclass(frozen=True)
class _Split:
    """Cases, of which one holds at every point."""

    cases: tuple[Sign, ...]


class Comparison:
    """Compares sums that were made by one `Symbolic` algebra. Raises Effort after `limit` steps."""

    def __init__(self, algebra: Symbolic, limit: int = 6000) -> None:
        self._algebra = algebra
        self._left = limit
        self._signs = Signs(self.same_factor, self._instance, self._observe, algebra.careful)
        self._normal = Normaliser(algebra, self._signs, self._step)
        self._shared: Shared | None = None
        self._instances: dict[tuple[object, ...], Bound] = {}
        self._depth = 0
        self.cases = 0
        self.defined_left = False  # whether the proof uses that the left side is defined

    def equal_outputs(self, facts: Facts, left: Sum, right: Sum) -> bool:
        """Whether left = right, and the right side is defined, wherever the left side is defined."""
        self._shared = facts.shared
        defined = dict.fromkeys(partial_applications(left, branches=False))
        needed = dict.fromkeys(partial_applications(right, branches=True))
        given = Given(facts, (), tuple(defined))
        self.defined_left = self.defined_left or bool(defined or needed)
        if any(need not in defined and not self._is_defined(given, *need) for need in needed):
            return False
        if self._algebra.careful:  # equal also where the left side is not defined
            given = Given(facts)
        return self.equal(given, left, right)

    def _is_defined(self, given: Given, relation: str, everywhere: Bound) -> bool:
        here = given.extended(everywhere.guards)
        if relation == DEFINED:
            return here.facts.inconsistent() or self._signs.defined(
                here, self._normal.simplified(here, everywhere.value)
            )
        if here.facts.inconsistent() or self._signs.of_sum(here, everywhere.value) == ">":
            return True
        return self._signs.holds(here, Sign(relation, self._normal.simplified(here, everywhere.value)))

    def equal(self, given: Given, left: Sum, right: Sum) -> bool:
        """Whether left = right is shown wherever `given` holds."""
        self._step()
        if left == right or given.facts.inconsistent():
            return True
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Effort("comparison")
        try:
            return self._equal(given, left, right)
        finally:
            self._depth -= 1

    def _equal(self, given: Given, left: Sum, right: Sum) -> bool:
        for guard in _free_guards(left + right):
            if given.facts.entails(guard) or given.facts.refutes(guard):
                continue
            if guard.relation == "==":  # e == 0, e < 0, e > 0
                cases = [guard, Guard("<=", -guard.value - 1), Guard("<=", guard.value - 1)]
            else:
                cases = [guard, guard.negated()]
            self.cases += len(cases)
            return all(self.equal(given.extended([case]), left, right) for case in cases)
        left, right = self._normal.simplified(given, left), self._normal.simplified(given, right)
        undecided = (g for g in _free_guards(left + right) if not given.facts.entails(g))
        if any(not given.facts.refutes(g) for g in undecided):
            return self.equal(given, left, right)  # elimination of bound variables freed a guard
        return self._matched(given, left, right) or self._by_cases(given, left, right)

    # matching

    def _matched(self, given: Given, left: Sum, right: Sum) -> bool:
        """Whether all coefficients agree, product by product."""
        zero = Fraction(0)
        classes: list[tuple[Product, Count]] = []

        def same(one: Product, other: Product) -> bool:
            return self._same(given, one, other)

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
                    if i != j and (pieces := self._cut(given, whole, part)) is not None
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

    def _cut(self, given: Given, whole: Product, part: Product) -> list[Product] | None:
        """`whole` without `part`, where `part` has the same factors over a smaller range."""
        if not whole.binders or len(whole.binders) != len(part.binders):
            return None
        whole, part = self._opened(given, whole), self._opened(given, part)
        for mapping, pairing in self._mappings(whole, part):
            inside = given.extended(part.guards)
            # The bijection maps the bound variables of `whole` to those of `part`: `whole` in terms of the latter.
            env = Moved(mapping)
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
        """Bijections that give the bound variables of one product in terms of the other's, with the factors paired."""
        if set(of.binders) & set(over.binders):
            return
        if kinds(of.factors) != kinds(over.factors):
            return
        for pairing in pairings(over.factors, of.factors):
            self._step()
            mapping = propose(pairing, over.binders, of.binders)
            if mapping is not None and bijective(mapping, over.binders, of.binders):
                yield mapping, pairing

    def _same(self, given: Given, left: Product, right: Product) -> bool:
        """left = right but for their coefficients, by a bijection of bound variables."""
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
            if self._guards_agree(given, left.guards, Moved(mapping).guards(right.guards)) and self._factors_agree(
                inside, left.factors, moved, pairing, right.factors
            ):
                return True
        return False

    def _opened(self, given: Given, product: Product) -> Product:
        """The product over bound variables that the facts do not speak of."""
        return self._algebra.renamed(product) if set(product.binders) & given.facts.names else product

    def _guards_agree(self, given: Given, left: tuple[Guard, ...], right: tuple[Guard, ...]) -> bool:
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
        """Whether the factors are equal: `pairing` pairs those of `left` with `before`, which `right` is in new terms.

        Choices and maxima are compared together, as one product.
        """
        moved = dict(zip(map(id, before), right, strict=True))
        plain = [(a, moved[id(b)]) for a, b in pairing if kind(a) != POINTWISE]
        if not all(self.same_factor(given, a, b) for a, b in plain):
            return False
        ours, theirs = (tuple(f for f in side if kind(f) == POINTWISE) for side in (left, right))
        if len(ours) == len(theirs) and all(
            self._structurally(given, a, moved[id(b)]) for a, b in pairing if kind(a) == POINTWISE
        ):
            return True
        return self._by_cases(given, (Product(ONE, ours),), (Product(ONE, theirs),))

    def same_factor(self, given: Given, left: Factor, right: Factor) -> bool:
        """Whether two factors are shown to be equal."""
        if left == right:
            return True
        match left, right:
            case Access(), Access():
                same = left.tensor == right.tensor and len(left.index) == len(right.index)
                return same and all(
                    a == b or given.facts.entails(Guard("==", a - b))
                    for a, b in zip(left.index, right.index, strict=True)
                )
            case Quantity(), Quantity():
                return given.facts.entails(Guard("==", left.size - right.size))
            case Apply(), Apply():
                if left.function != right.function or len(left.arguments) != len(right.arguments):
                    return False
                orders = [right.arguments, right.arguments[::-1]] if left.function in COMMUTATIVE else [right.arguments]
                return any(
                    all(self.equal(given, a, b) for a, b in zip(left.arguments, order, strict=True)) for order in orders
                )
            case Repeated(), Repeated():
                return self._same_bound(given, left.over, right.over)
            case Real(), Real():
                return False
        if {kind(left), kind(right)} != {POINTWISE}:
            return False
        return self._structurally(given, left, right) or self._by_cases(given, single(left), single(right))

    def _structurally(self, given: Given, left: Factor, right: Factor) -> bool:
        """Whether two choices or maxima are equal part by part."""
        if left == right:
            return True
        if isinstance(left, Maximum) and isinstance(right, Maximum):
            sides = (left.alternatives, right.alternatives)
            return all(
                any(self._same_bound(given, a, b) for b in theirs)
                for ours, theirs in (sides, sides[::-1])
                for a in ours
            )
        if isinstance(left, Choice) and isinstance(right, Choice) and left.relation == right.relation:
            parts = zip((left.value, left.yes, left.no), (right.value, right.yes, right.no), strict=True)
            return all(self.equal(given, a, b) for a, b in parts)
        return False

    def _same_bound(self, given: Given, left: Bound, right: Bound) -> bool:
        """The same values over bound variables, by a bijection."""
        self._step()
        if len(left.binders) != len(right.binders) or (not left.value) != (not right.value):
            return False
        if set(left.binders) & given.facts.names:
            left = self._algebra.renamed_bound(left)
        if set(right.binders) & (given.facts.names | set(left.binders)):
            right = self._algebra.renamed_bound(right)
        mapping = propose([(left.value, right.value)], left.binders, right.binders)
        if mapping is None or not bijective(mapping, left.binders, right.binders):
            return False
        env = Moved(mapping)
        return self._guards_agree(given, left.guards, env.guards(right.guards)) and self.equal(
            given.extended(left.guards), left.value, env.sum(self._algebra, right.value)
        )

    def _instance(self, given: Given, everywhere: Bound, value: Sum) -> bool:
        """Whether `value` is one of those of a bound."""
        self._step()
        less = replace(given, defined=())  # what is being asked must not be an answer
        key = (given.facts, given.signs, everywhere)
        if key not in self._instances:
            over = self._algebra.renamed_bound(everywhere)
            inside = self._normal.simplified(less.extended(over.guards), over.value)
            self._instances[key] = _without_idle(replace(over, value=inside))
        over = self._instances[key]
        if {tuple(kinds(p.factors)) for p in value} != {tuple(kinds(p.factors)) for p in over.value}:
            return False
        mapping = propose([(value, over.value)], (), over.binders)
        if mapping is None:
            return False
        env = Moved(mapping)
        if not all(given.facts.entails(g) for g in env.guards(over.guards)):
            return False
        theirs = env.sum(self._algebra, over.value) if over.binders else over.value
        return value == theirs or self._matched(less, value, self._normal.simplified(less, theirs))

    # cases

    def _by_cases(self, given: Given, left: Sum, right: Sum) -> bool:
        """left = right in every case of some split, or by the signs that are given."""
        self._step()
        split = next(_splits(self._algebra, left + right), None)
        if split is not None and len(given.signs) < _MOST_SIGNS:
            self.cases += len(split.cases)
            for sign in split.cases:
                here = given.assuming(Sign(sign.relation, self._normal.simplified(given, sign.value)))
                if here is given or not (self._signs.contradictory(here) or self.equal(here, left, right)):
                    return False
            return True
        if given.signs:
            for sign in given.signs:  # x >= 0 and x <= 0: x is 0
                zero = Sign("==", sign.value)
                if sign.relation == ">=" and zero not in given.signs and self._signs.holds(given, zero):
                    here = given.assuming(zero)
                    if here.values != given.values:
                        return self.equal(here, left, right)
            minus = self._algebra.multiply((Product(-ONE),), right)
            difference = self._normal.simplified(given, self._algebra.add(left, minus))
            if self._signs.holds(given, Sign("==", difference)):
                return True
        return not self._algebra.careful and self._by_denominator(given, left, right)

    def _by_denominator(self, given: Given, left: Sum, right: Sum) -> bool:
        """left = right where left * f = right * f, for a denominator f of either: it is not 0 where it is one."""
        for product in left + right:
            for factor in product.factors:
                if isinstance(factor, Apply) and factor.function == "reciprocal":
                    if set(product.binders) & mentioned((factor,)):
                        continue
                    (below,) = factor.arguments
                    self.cases += 1
                    return self.equal(given, *(self._times(total, factor, below) for total in (left, right)))
        return False

    def _times(self, total: Sum, factor: Factor, below: Sum) -> Sum:
        result: list[Product] = []
        for product in total:
            if factor in product.factors:
                factors = list(product.factors)
                factors.remove(factor)
                result.append(replace(product, factors=tuple(factors)))
            else:
                result += self._algebra.multiply((product,), below)
        return tuple(result)

    def _observe(self, query: RealQuery) -> None:
        if self._shared is not None and self._shared.observer is not None:
            self._shared.observer(query)

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Effort("comparison")


def _sum(one: Count, other: Count) -> Count:
    a, b, c, d = (x + y for x, y in zip(one, other, strict=True))
    return a, b, c, d


def _scaled(count: Count, by: Fraction) -> Count:
    """The counts of c * product; a negative c makes positive coefficients negative."""
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


def _without_idle(bound: Bound) -> Bound:
    """The same values without the bound variables that they do not depend on."""
    used = mentioned_by(bound.value)
    for name in bound.binders:
        guards = projected(name, bound.guards) if name not in used else None
        if guards is not None:
            bound = Bound(tuple(b for b in bound.binders if b != name), guards, bound.value)
    return bound


def _free_guards(total: Sum, bound: frozenset[str] = frozenset()) -> list[Guard]:
    """Undecided guards, those inside factors too, that mention no bound variable."""
    found: dict[Guard, None] = {}

    def visit(binders: tuple[str, ...], guards: tuple[Guard, ...], inside: Sum, outer: frozenset[str]) -> None:
        inner = outer | set(binders)
        found.update((g, None) for g in guards if g.decided() is None and not symbols_of(g.value) & inner)
        for product in inside:
            visit(product.binders, product.guards, (), inner)
            within = inner | set(product.binders)
            for factor in product.factors:
                for more, conditions, part in children(factor):
                    visit(more, conditions, part, within)

    visit((), (), total, bound)
    return list(found)


def _splits(algebra: Symbolic, total: Sum, bound: frozenset[str] = frozenset()) -> Iterator[_Split]:
    """Truth values, choices and maxima that depend on no bound variable, innermost first."""
    for product in total:
        inner = bound | set(product.binders)
        for factor in product.factors:
            for more, _, part in children(factor):
                yield from _splits(algebra, part, inner | set(more))
            if mentioned((factor,)) & inner:
                continue
            value = single(factor)
            if isinstance(factor, Access) and factor.truth:
                yield _Split((Sign("==", (*value, Product(-ONE))), Sign("==", value)))
            elif isinstance(factor, Choice):
                sign = Sign(factor.relation, factor.value)
                yield _Split((sign, sign.negated()))
            elif isinstance(factor, Maximum) and len(factor.alternatives) > 1:
                first, second = (_value(a) for a in factor.alternatives[:2])
                sign = Sign(">=", algebra.add(first, algebra.multiply((Product(-ONE),), second)))
                yield _Split((sign, sign.negated()))


def _value(alternative: Bound) -> Sum:
    if alternative.binders or alternative.guards:
        return single(Maximum((alternative,)))
    return alternative.value
