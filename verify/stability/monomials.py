"""Monomials of bounds: sums of |value| over bound variables, each known by a number.

Equal monomials get one number: the values are equal up to a factor, by a bijection of the bound variables that the
prover checks (`verify.prove.matching`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from superopt.ir.dim import symbols_of
from superopt.ops.algebra import Guard
from verify.prove.assumptions import Given
from verify.prove.bijection import kinds
from verify.prove.compare import Comparison
from verify.prove.facts import Effort
from verify.prove.normal_form import shown
from verify.prove.sums import ONE, Apply, Product, SumOfProducts, children
from verify.prove.symbolic import Symbolic
from verify.stability.rounding import MAGNITUDE, magnitude

__all__ = ["Combination", "Monomial", "Monomials"]

# coefficients, all positive, by the number of the monomial
Combination = dict[int, Fraction]
_MOST = 400  # monomials in one comparison of bounds


@dataclass(frozen=True)
class Monomial:
    """The sum of |value| over all values of `binders` at which the guards hold. `value` is in normal form."""

    binders: tuple[str, ...]
    guards: tuple[Guard, ...]
    value: SumOfProducts

    @property
    def product(self) -> Product:
        """The monomial as a product of the prover."""
        return Product(ONE, magnitude(self.value)[0].factors, self.binders, self.guards)

    @property
    def single(self) -> bool:
        """True for the magnitude of one product that is no sum: it cannot cancel."""
        return len(self.value) == 1 and not self.value[0].binders


class Monomials:
    """The monomials that were met under the assumptions `given`."""

    def __init__(self, algebra: Symbolic, comparison: Comparison, given: Given) -> None:
        self._algebra, self._comparison, self._given = algebra, comparison, given
        self.found: list[Monomial] = []
        self._keys: dict[object, list[int]] = {}
        self._texts: dict[str, int] = {}

    def combination(self, bound: SumOfProducts) -> Combination:
        """Return a bound as a combination of monomials."""
        total: Combination = {}
        for product in bound:
            for part in self._simplified(product):
                coefficient, number = self._number(part)
                total[number] = total.get(number, Fraction(0)) + coefficient
        return total

    def of_value(self, binders: tuple[str, ...], guards: tuple[Guard, ...], value: SumOfProducts) -> Combination:
        """Return the sum of |value|, for a value in normal form, as a combination of monomials."""
        return self.combination((Product(ONE, magnitude(value)[0].factors, binders, guards),)) if value else {}

    def alike(self) -> list[tuple[int, int]]:
        """Return the pairs of monomials whose values may be equal over different ranges."""
        groups = [k for k in self._keys.values() if len(k) > 1]
        return [(i, j) for group in groups for i, j in itertools.combinations(group, 2)]

    def pieces(self, number: int) -> Combination | None:
        """Return the monomial as a sum over parts of its range, if a guard inside its value depends on its bound
        variables: in each part the guard holds everywhere or nowhere."""
        product = self.found[number].product
        guard = next(iter(_guards_on(self.found[number].value, frozenset(product.binders))), None)
        if guard is None:
            return None
        if guard.relation == "==":
            cases = [guard, Guard("<=", guard.value - 1), Guard("<=", -guard.value - 1)]
        else:
            cases = [guard, guard.negated()]
        return self.combination(tuple(replace(product, guards=(*product.guards, case)) for case in cases))

    def _simplified(self, product: Product) -> Iterator[Product]:
        """Yield the products of the normal form, each one magnitude."""
        for simple in self._comparison.normal_form(self._given, (product,)):
            inner = next((f for f in simple.factors if isinstance(f, Apply) and f.function == MAGNITUDE), None)
            if inner is None or not inner.arguments[0]:
                continue
            value, guards = inner.arguments[0], simple.guards
            rest = list(simple.factors)
            rest.remove(inner)
            if rest:  # sizes, from sums over variables that the magnitude does not depend on
                here = self._given.extended(guards)
                outside = (Product(ONE, tuple(rest)),)
                if not self._comparison.positive(here, outside):
                    raise Effort("a size that may be negative")
                value = self._comparison.normal_form(here, self._algebra.multiply(outside, value))
            if len(value) == 1 and not value[0].binders and value[0].guards:  # they may determine bound variables
                guards, value = guards + value[0].guards, (replace(value[0], guards=()),)
                yield from self._simplified(replace(simple, factors=magnitude(value)[0].factors, guards=guards))
            elif value:
                yield replace(simple, factors=magnitude(value)[0].factors)

    def _number(self, product: Product) -> tuple[Fraction, int]:
        """Return the coefficient and the number of a piece in normal form."""
        (factor,) = product.factors
        assert isinstance(factor, Apply)
        value = factor.arguments[0]
        scale = max(abs(p.coefficient) for p in value)
        value = tuple(_ordered(replace(p, coefficient=p.coefficient / scale), product.binders) for p in value)
        found = Monomial(product.binders, product.guards, value)
        text = shown(found.product)
        if text not in self._texts:
            self._texts[text] = self._match(found)
        return product.coefficient * scale, self._texts[text]

    def _match(self, monomial: Monomial) -> int:
        """Return the number of an equal monomial, or a new one."""
        key = (
            len(monomial.binders),
            tuple(sorted((tuple(kinds(p.factors)), len(p.binders), abs(p.coefficient)) for p in monomial.value)),
        )
        same = self._keys.setdefault(key, [])
        minus = tuple(replace(p, coefficient=-p.coefficient) for p in monomial.value)
        for number in same:
            for value in (monomial.value, minus):
                if self._comparison.same(
                    self._given, self.found[number].product, replace(monomial, value=value).product
                ):
                    return number
        if len(self.found) == _MOST:
            raise Effort("monomials")
        self.found.append(monomial)
        same.append(len(self.found) - 1)
        return len(self.found) - 1


def _ordered(product: Product, binders: tuple[str, ...]) -> Product:
    """Return the product with factors and guards in an order that does not depend on the names of bound variables."""
    factors = sorted(product.factors, key=lambda factor: shown(Product(ONE, (factor,), binders)))
    guards = sorted(product.guards, key=lambda guard: shown(Product(ONE, (), binders, (guard,))))
    return replace(product, factors=tuple(factors), guards=tuple(guards))


def _guards_on(total: SumOfProducts, names: frozenset[str], inner: frozenset[str] = frozenset()) -> Iterator[Guard]:
    """Yield the guards in a sum that mention one of `names` and no variable bound inside."""
    for product in total:
        within = inner | set(product.binders)
        for guard in product.guards:
            met = symbols_of(guard.value)
            if met & names and not met & within and guard.decided() is None:
                yield guard
        for factor in product.factors:
            for binders, guards, part in children(factor):
                deeper = within | set(binders)
                for guard in guards:
                    met = symbols_of(guard.value)
                    if met & names and not met & deeper and guard.decided() is None:
                        yield guard
                yield from _guards_on(part, names, deeper)
