"""Equality of two sums of guarded products, for all sizes and indices that satisfy the facts.

    1. split into cases on guards that mention no bound variable,
    2. simplify: drop products whose guards contradict the facts, eliminate k where a guard says k = e,
    3. match the rest one to one: equal coefficients, equal factors, and a bijection of the bound variables
       under which the guards are equivalent.
The bijection is read off the index expressions (a proposal); that it is a bijection of the integers
(determinant 1 or -1), that guards agree and that indices are equal is then checked. So a bad proposal
costs an `Unknown`, never a wrong `Proved`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

from superopt.ir.dim import Dim, Size, evaluate, symbol, symbols_of
from verify.algebra import Access, Apply, Factor, Guard, Product, Sum, Symbolic, substitute
from verify.facts import Facts

__all__ = ["Comparison", "Effort"]


class Effort(Exception):
    """The comparison took more steps than it may."""


class Comparison:
    """Compares sums that were made by one `Symbolic` algebra. Raises Effort after `limit` steps."""

    def __init__(self, algebra: Symbolic, limit: int = 4000) -> None:
        self._algebra = algebra
        self._left = limit
        self.cases = 0

    def equal(self, facts: Facts, left: Sum, right: Sum) -> bool:
        """Whether left = right is shown for all values that satisfy `facts`."""
        self._step()
        if left == right or facts.inconsistent():
            return True
        for guard in _free_guards(left + right):
            if facts.entails(guard) or facts.refutes(guard):
                continue
            if guard.relation == "==":  # e == 0, e < 0, e > 0
                cases = [guard, Guard("<=", -guard.value - 1), Guard("<=", guard.value - 1)]
            else:
                cases = [guard, guard.negated()]
            self.cases += len(cases)
            return all(self.equal(facts.extended([case]), left, right) for case in cases)
        left, right = self.simplified(facts, left), self.simplified(facts, right)
        if any(not facts.entails(g) for g in _free_guards(left + right)):
            return self.equal(facts, left, right)  # elimination of bound variables freed a guard
        return self._matched(facts, left, right)

    def simplified(self, facts: Facts, total: Sum) -> Sum:
        """Without products that vanish, guards that hold, and bound variables with one value; like products added."""
        result: dict[object, Product] = {}
        for product in total:
            reduced = self._reduced(facts, product)
            if reduced is None:
                continue
            key = (frozenset(reduced.guards), reduced.binders, tuple(sorted(map(repr, reduced.factors))))
            same = result.get(key)
            coefficient = reduced.coefficient + (same.coefficient if same else 0)
            result[key] = Product(coefficient, reduced.factors, reduced.binders, reduced.guards)
        return tuple(p for p in result.values() if p.coefficient)

    def _reduced(self, facts: Facts, product: Product) -> Product | None:
        self._step()
        guards, binders, factors = list(product.guards), list(product.binders), product.factors
        while True:
            solved = next((found for value in _equations(guards) for found in _solve(value, binders)), None)
            if solved is None:
                break
            name, value = solved
            binders.remove(name)
            env = {name: value}
            guards = [Guard(g.relation, evaluate(g.value, env)) for g in guards]
            moved = substitute(self._algebra, (Product(Fraction(1), factors),), env)
            factors = moved[0].factors
        if any(g.decided() is False for g in guards):
            return None
        here = facts.extended(guards)
        if here.inconsistent():
            return None
        kept = [g for g in dict.fromkeys(guards) if g.decided() is None and not facts.entails(g)]
        coefficient = product.coefficient
        simple: list[Factor] = []
        for factor in factors:
            if isinstance(factor, Apply):
                argument = self.simplified(here, factor.argument)
                applied = self._algebra.apply(factor.function, argument)
                if not applied:
                    return None
                only = applied[0]
                if len(applied) == 1 and len(only.factors) <= 1 and not only.binders and not only.guards:
                    coefficient *= only.coefficient
                    simple.extend(only.factors)
                else:
                    simple.append(Apply(factor.function, argument))
            else:
                simple.append(factor)
        return Product(coefficient, tuple(simple), tuple(binders), tuple(kept))

    def _matched(self, facts: Facts, left: Sum, right: Sum) -> bool:
        if len(left) != len(right):
            return False
        rest = list(right)
        for product in left:
            found = next((other for other in rest if self._same(facts, product, other)), None)
            if found is None:
                return False
            rest.remove(found)
        return True

    def _same(self, facts: Facts, left: Product, right: Product) -> bool:
        """left = right by a bijection of bound variables."""
        self._step()
        if left.coefficient != right.coefficient or len(left.binders) != len(right.binders):
            return False
        if sorted(map(_kind, left.factors)) != sorted(map(_kind, right.factors)):
            return False
        if set(left.binders) & set(right.binders):
            right = self._algebra.renamed(right)
        inside = facts.extended(left.guards)
        for pairing in _pairings(left.factors, right.factors):
            self._step()
            mapping = _propose(pairing, left.binders, right.binders)
            if mapping is None or not _bijective(mapping, left.binders, right.binders):
                continue
            if self._guards_agree(facts, left, right, mapping) and all(
                self._same_factor(inside, a, _moved(self._algebra, b, mapping)) for a, b in pairing
            ):
                return True
        return False

    def _guards_agree(self, facts: Facts, left: Product, right: Product, mapping: dict[str, Size]) -> bool:
        moved = [Guard(g.relation, evaluate(g.value, mapping)) for g in right.guards]
        inside_left, inside_right = facts.extended(left.guards), facts.extended(moved)
        return all(inside_left.entails(g) for g in moved) and all(inside_right.entails(g) for g in left.guards)

    def _same_factor(self, facts: Facts, left: Factor, right: Factor) -> bool:
        if isinstance(left, Access) and isinstance(right, Access):
            pairs = zip(left.index, right.index, strict=True)
            return left.tensor == right.tensor and all(a == b or facts.entails(Guard("==", a - b)) for a, b in pairs)
        if isinstance(left, Apply) and isinstance(right, Apply):
            return left.function == right.function and self.equal(facts, left.argument, right.argument)
        return left == right

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Effort("comparison")


def _kind(factor: Factor) -> str:
    if isinstance(factor, Access):
        return f"{factor.tensor}[{len(factor.index)}]"
    return f"{factor.function}()" if isinstance(factor, Apply) else factor.name


def _free_guards(total: Sum, bound: frozenset[str] = frozenset()) -> list[Guard]:
    """Undecided guards, those inside function arguments too, that mention no bound variable."""
    found: dict[Guard, None] = {}
    for product in total:
        inner = bound | set(product.binders)
        for guard in product.guards:
            if guard.decided() is None and not symbols_of(guard.value) & inner:
                found[guard] = None
        for factor in product.factors:
            if isinstance(factor, Apply):
                found.update(dict.fromkeys(_free_guards(factor.argument, inner)))
    return list(found)


def _equations(guards: list[Guard]) -> Iterator[Size]:
    """Values that the guards say are 0: v == 0, or both 0 <= v and 0 <= -v."""
    for guard in guards:
        if guard.relation == "==" or Guard("<=", -guard.value) in guards:
            yield guard.value


def _solve(value: Size, names: list[str]) -> Iterator[tuple[str, Size]]:
    """(k, e) with value == 0 exactly where k == e, for a k of `names` that stands alone with factor 1 or -1."""
    if isinstance(value, Dim):
        for monomial, coefficient in value.terms:
            if len(monomial) == 1 and monomial[0] in names and abs(coefficient) == 1:
                name = str(monomial[0])
                rest = value - coefficient * symbol(name)
                if name not in symbols_of(rest):
                    yield name, -coefficient * rest


def _pairings(left: tuple[Factor, ...], right: tuple[Factor, ...]) -> Iterator[list[tuple[Factor, Factor]]]:
    """All ways to pair factors of the same kind."""
    kinds = sorted(set(map(_kind, left)))
    groups = []
    for kind in kinds:
        own = [f for f in left if _kind(f) == kind]
        others = [f for f in right if _kind(f) == kind]
        groups.append([list(zip(own, order, strict=True)) for order in itertools.permutations(others)])
    for choice in itertools.product(*groups):
        yield list(itertools.chain.from_iterable(choice))


def _index_equations(pairing: list[tuple[Factor, Factor]]) -> Iterator[tuple[Size, Size]]:
    for a, b in pairing:
        if isinstance(a, Access) and isinstance(b, Access):
            yield from zip(a.index, b.index, strict=False)
    for a, b in pairing:
        if isinstance(a, Apply) and isinstance(b, Apply):
            for p, q in zip(a.argument, b.argument, strict=False):
                for f in p.factors:
                    match = next((h for h in q.factors if _kind(h) == _kind(f)), None)
                    if match is not None:
                        yield from _index_equations([(f, match)])


def _propose(
    pairing: list[tuple[Factor, Factor]], left: tuple[str, ...], right: tuple[str, ...]
) -> dict[str, Size] | None:
    """Values for the right side's bound variables, in terms of the left side's, that make the indices equal."""
    equations = list(_index_equations(pairing))
    mapping: dict[str, Size] = {}
    progress = True
    while progress and len(mapping) < len(right):
        progress = False
        for a, b in equations:
            unknown = [name for name in right if name not in mapping and name in symbols_of(b)]
            if len(unknown) == 1:
                solved = next(_solve(evaluate(b, mapping) - a, unknown), None)
                if solved is not None:
                    mapping[solved[0]] = solved[1]
                    progress = True
    return mapping if len(mapping) == len(right) else None


def _bijective(mapping: dict[str, Size], left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Whether the map from left to right bound variables is affine with an integer matrix of determinant 1 or -1."""
    matrix: list[list[int]] = []
    bound = set(left)
    for name in right:
        value = mapping[name]
        row = dict.fromkeys(left, 0)
        for monomial, coefficient in value.terms if isinstance(value, Dim) else ():
            mentioned = {n for atom in monomial for n in symbols_of(Dim((((atom,), 1),)))} & bound
            if mentioned:
                if len(monomial) != 1 or not isinstance(monomial[0], str):
                    return False
                row[monomial[0]] += coefficient
        matrix.append([row[k] for k in left])
    return abs(_determinant(matrix)) == 1


def _determinant(matrix: list[list[int]]) -> int:
    if not matrix:
        return 1
    first, *rest = matrix
    return sum(
        (-1) ** j * value * _determinant([row[:j] + row[j + 1 :] for row in rest])
        for j, value in enumerate(first)
        if value
    )


def _moved(algebra: Symbolic, factor: Factor, mapping: dict[str, Size]) -> Factor:
    return substitute(algebra, (Product(Fraction(1), (factor,)),), mapping)[0].factors[0]
