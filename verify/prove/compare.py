"""Equality of two sums, for all sizes and indices that satisfy the facts.

    1. Split into cases on guards that mention no bound variable.
    2. Bring both sides into normal form.
    3. Match the products: equal factors, and a bijection of the bound variables under which the guards are equivalent.
       The coefficients of matching products must agree. A range inside another range is cut out of it.
    4. If that fails, split on a truth value, a choice or a maximum that mentions no bound variable. Without such a
       split, ask Z3 if the signs of the cases make the difference 0. Last, multiply by a denominator.

Every proposal is checked: a bad proposal may end in `Unknown`, never in a wrong `Proved`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from superopt.ir.dim import symbols_of
from superopt.ops.algebra import Guard
from verify.propose.bijections import propose
from verify.prove.assumptions import DEFINED, Everywhere, Given, Sign, partial_applications
from verify.prove.bijection import POINTWISE, bijective, kind, kinds
from verify.prove.bound_variables import inhabited, projected
from verify.prove.facts import Effort, Facts, Shared
from verify.prove.floating import COMMUTATIVE
from verify.prove.matching import Matching
from verify.prove.normal_form import Normaliser
from verify.prove.real_queries import RealQuery
from verify.prove.signs import Signs
from verify.prove.substitution import Substitution
from verify.prove.sums import (
    ONE,
    Access,
    Apply,
    Bound,
    Choice,
    Factor,
    Maximum,
    Product,
    Quantity,
    Real,
    Repeated,
    SumOfProducts,
    children,
    mentioned,
    mentioned_by,
    single,
)
from verify.prove.symbolic import Symbolic

__all__ = ["Comparison", "free_guards", "splits"]

_MOST_SIGNS = 12  # nested case splits
_DEEPEST = 30  # nested comparisons
_MANY = 8  # guards; a longer list is split in halves


@dataclass(frozen=True)
class _Split:
    """Exhaustive cases: at every point at least one of them holds."""

    cases: tuple[Sign, ...]


class Comparison:
    """Compares sums of one `Symbolic` algebra. Raises Effort after `limit` steps."""

    def __init__(self, algebra: Symbolic, limit: int = 6000) -> None:
        self._algebra = algebra
        self._left = limit
        self._signs = Signs(self.same_factor, self._instance, self._observe)
        self._normal = Normaliser(algebra, self._signs, self._step)
        self._matching = Matching(algebra, self._normal, self, self._step)
        self._shared: Shared | None = None
        self._instances: dict[tuple[object, ...], Bound] = {}
        self._depth = 0
        self.cases = 0
        self.defined_left = False  # True once the proof assumes that the left side is defined

    def equal_outputs(
        self, facts: Facts, left: SumOfProducts, right: SumOfProducts, defined: Iterable[Everywhere]
    ) -> bool:
        """Return True if left = right, and the right side is defined, wherever the left side is defined.

        `defined` follows from all elements of all left outputs being defined. Careful mode does not use it: there each
        element must be equal whatever the other elements are.
        """
        self._shared = facts.shared
        own = dict.fromkeys(partial_applications(left, branches=False))
        needed = dict.fromkeys(partial_applications(right, branches=True))
        given = Given(facts, (), tuple(own) if self._algebra.careful else (*own, *defined))
        # Branches count too: they yield no assumptions, but laws for defined functions are used in them.
        self.defined_left = self.defined_left or bool(needed) or any(partial_applications(left, branches=True))
        if any(need not in own and not self._is_defined(given, *need) for need in needed):
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

    def equal(self, given: Given, left: SumOfProducts, right: SumOfProducts) -> bool:
        """Return True if left = right is shown wherever `given` holds."""
        self._step()
        if left == right or given.facts.inconsistent():
            return True
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise Effort("comparison")
            return self._equal(given, left, right)
        finally:
            self._depth -= 1

    def _equal(self, given: Given, left: SumOfProducts, right: SumOfProducts) -> bool:
        if self._algebra.tabulated:  # written-out sums have too many guards to split on; both sides have the same
            minus: SumOfProducts = (Product(-ONE),)
            return not self._normal.simplified(given, left + self._algebra.multiply(minus, right))
        free = free_guards(left + right)
        if len(free) > _MANY:  # split between halves, so that n cases nest log n deep, not n
            left, right = self._normal.simplified(given, left), self._normal.simplified(given, right)
            free = free_guards(left + right)
            free = free[len(free) // 2 :] + free[: len(free) // 2]
        for guard in free:
            if given.facts.entails(guard) or given.facts.refutes(guard):
                continue
            if guard.relation == "==":  # e == 0, e < 0, e > 0
                cases = [guard, Guard("<=", -guard.value - 1), Guard("<=", guard.value - 1)]
            else:
                cases = [guard, guard.negated()]
            self.cases += len(cases)
            return all(self.equal(given.extended([case]), left, right) for case in cases)
        left, right = self._normal.simplified(given, left), self._normal.simplified(given, right)
        undecided = (g for g in free_guards(left + right) if not given.facts.entails(g))
        if any(not given.facts.refutes(g) for g in undecided):
            return self.equal(given, left, right)  # eliminating a bound variable left a guard without any
        return self._matching.matched(given, left, right) or self.by_cases(given, left, right)

    def normal_form(self, given: Given, total: SumOfProducts) -> SumOfProducts:
        """Return the normal form of `total`, which is equal to it wherever `given` holds."""
        return self._normal.simplified(given, total)

    def each_is_among(self, given: Given, value: SumOfProducts, sets: Sequence[Bound]) -> bool:
        """Return True if, wherever `given` holds, `value` is shown to be one of the values of one of the sets."""
        self._shared = given.facts.shared
        for guard in free_guards(value):
            if not given.facts.entails(guard) and not given.facts.refutes(guard):
                if guard.relation == "==":
                    cases = [guard, Guard("<=", -guard.value - 1), Guard("<=", guard.value - 1)]
                else:
                    cases = [guard, guard.negated()]
                return all(self.each_is_among(given.extended([case]), value, sets) for case in cases)
        simple = self._normal.simplified(given, value)
        return given.facts.inconsistent() or any(self._instance(given, one, simple) for one in sets)

    def contradictory(self, given: Given) -> bool:
        """Return True if the given signs are shown to contradict each other."""
        return self._signs.contradictory(given)

    def positive(self, given: Given, total: SumOfProducts) -> bool:
        """Return True if every summand is shown to be at least 0, or every one at most 0."""
        minus = tuple(replace(p, coefficient=-p.coefficient) for p in total)
        return any(self._signs.of_sum(given, side) is not None for side in (total, minus))

    def same(self, given: Given, left: Product, right: Product) -> bool:
        """Return True if two products are equal up to coefficients, by a bijection of bound variables."""
        return self._matching.same(given, left, right)

    def cut(self, given: Given, whole: Product, part: Product) -> SumOfProducts | None:
        """Return `whole` - `part` if `part` has the same factors over a smaller range, else None."""
        found = self._matching.cut(given, whole, part)
        return None if found is None else tuple(found)

    def guards_agree(self, given: Given, left: tuple[Guard, ...], right: tuple[Guard, ...]) -> bool:
        """Return True if the guards hold at the same points."""
        return self._matching.guards_agree(given, left, right)

    def same_factor(self, given: Given, left: Factor, right: Factor) -> bool:
        """Return True if two factors are shown to be equal."""
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
        return self.structurally(given, left, right) or self.by_cases(given, single(left), single(right))

    def structurally(self, given: Given, left: Factor, right: Factor) -> bool:
        """Return True if two choices or maxima are equal part by part."""
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
        """Return True if a bijection of the bound variables makes both the same set of values."""
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
        env = Substitution(mapping)
        return self._matching.guards_agree(given, left.guards, env.guards(right.guards)) and self.equal(
            given.extended(left.guards), left.value, env.sum(self._algebra, right.value)
        )

    def _instance(self, given: Given, everywhere: Bound, value: SumOfProducts) -> bool:
        """Return True if `value` is one of the values of a bound."""
        self._step()
        less = replace(given, defined=())  # the statement in question must not prove itself
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
        env = Substitution(mapping)
        if not all(given.facts.entails(g) for g in env.guards(over.guards)):
            return False
        theirs = env.sum(self._algebra, over.value) if over.binders else over.value
        return value == theirs or self._matching.matched(less, value, self._normal.simplified(less, theirs))

    # cases

    def by_cases(self, given: Given, left: SumOfProducts, right: SumOfProducts) -> bool:
        """Return True if left = right in every case of some split, or by the given signs."""
        self._step()
        split = next(splits(self._algebra, left + right), None)
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
            if not self._algebra.careful:  # the solver lets summands cancel
                minus = self._algebra.multiply((Product(-ONE),), right)
                difference = self._normal.simplified(given, self._algebra.add(left, minus))
                if self._signs.holds(given, Sign("==", difference)):
                    return True
        return not self._algebra.careful and self._by_denominator(given, left, right)

    def _by_denominator(self, given: Given, left: SumOfProducts, right: SumOfProducts) -> bool:
        """Return True if left * f = right * f, for a denominator f of either side (f is not 0, as 1/f is defined)."""
        for product in left + right:
            if not inhabited(given.facts, product.binders, product.guards):
                continue  # under a sum over an empty range 1/f may be undefined
            for factor in product.factors:
                if isinstance(factor, Apply) and factor.function == "reciprocal":
                    if set(product.binders) & mentioned((factor,)):
                        continue
                    (below,) = factor.arguments
                    self.cases += 1
                    return self.equal(given, *(self._times(total, factor, below) for total in (left, right)))
        return False

    def _times(self, total: SumOfProducts, factor: Factor, below: SumOfProducts) -> SumOfProducts:
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


def _without_idle(bound: Bound) -> Bound:
    """Remove the bound variables that the values do not depend on."""
    used = mentioned_by(bound.value)
    for name in bound.binders:
        guards = projected(name, bound.guards) if name not in used else None
        if guards is not None:
            bound = Bound(tuple(b for b in bound.binders if b != name), guards, bound.value)
    return bound


def free_guards(total: SumOfProducts, bound: frozenset[str] = frozenset()) -> list[Guard]:
    """Return the undecided guards that mention no bound variable, also those inside factors."""
    found: dict[Guard, None] = {}

    def visit(
        binders: tuple[str, ...], guards: tuple[Guard, ...], inside: SumOfProducts, outer: frozenset[str]
    ) -> None:
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


def splits(algebra: Symbolic, total: SumOfProducts, bound: frozenset[str] = frozenset()) -> Iterator[_Split]:
    """Yield case splits on truth values, choices and maxima that mention no bound variable, innermost first."""
    for product in total:
        inner = bound | set(product.binders)
        for factor in product.factors:
            for more, _, part in children(factor):
                yield from splits(algebra, part, inner | set(more))
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


def _value(alternative: Bound) -> SumOfProducts:
    if alternative.binders or alternative.guards:
        return single(Maximum((alternative,)))
    return alternative.value
