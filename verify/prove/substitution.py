"""Substitution of index symbols in sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from superopt.ir.dim import DataIndex, Quotient, Size, evaluate, symbol, symbols_of
from superopt.ops.algebra import Guard
from verify.prove.sums import (
    Access,
    Apply,
    Bound,
    Choice,
    Entry,
    Factor,
    Maximum,
    Product,
    Quantity,
    Repeated,
    SumAlgebra,
    SumOfProducts,
)

__all__ = ["Substitution"]


class Substitution:
    """A capture-avoiding substitution of index symbols, and of whole quotients, in sums."""

    def __init__(self, env: Mapping[str, Size], quotients: Mapping[Quotient, Size] | None = None) -> None:
        self._env, self._quotients = env, quotients or {}
        self._reached = set(env) | {name for value in env.values() for name in symbols_of(value)}
        for quotient, value in self._quotients.items():
            for size in (quotient.numerator, quotient.denominator, value):
                self._reached |= symbols_of(size)

    def size(self, value: Size) -> Size:
        """Return `value` with the symbols and quotients replaced."""
        if not self._quotients or isinstance(value, int):
            return evaluate(value, self._env)
        total: Size = 0
        for monomial, coefficient in value.terms:
            product: Size = coefficient
            for atom in monomial:
                if isinstance(atom, Quotient) and atom in self._quotients:
                    product = product * self._quotients[atom]
                elif isinstance(atom, Quotient):
                    product = product * (self.size(atom.numerator) // self.size(atom.denominator))
                elif isinstance(atom, DataIndex):
                    product = product * atom.moved(self.size)
                else:
                    product = product * self._env.get(atom, symbol(atom))
            total = total + product
        return total

    def guards(self, guards: Sequence[Guard]) -> tuple[Guard, ...]:
        """Return the guards with the symbols replaced."""
        return tuple(Guard(g.relation, self.size(g.value)) for g in guards)

    def sum(self, algebra: SumAlgebra, total: SumOfProducts) -> SumOfProducts:
        """Return the sum with its free symbols replaced."""
        result: list[Product] = []
        for product in total:
            if self._reached.isdisjoint(product.mentioned) and self._reached.isdisjoint(product.bound):
                result.append(product)
                continue
            if self._reached & set(product.binders):
                product = algebra.renamed(product)
            factors: list[Factor] = []
            coefficient = product.coefficient
            spread: list[SumOfProducts] = []
            for factor in product.factors:
                if isinstance(factor, Quantity):
                    moved = algebra.size(self.size(factor.size))
                    if len(moved) == 1:
                        coefficient *= moved[0].coefficient
                        factors.extend(moved[0].factors)
                    else:
                        spread.append(moved)
                else:
                    factors.append(self.factor(algebra, factor))
            here: SumOfProducts = (Product(coefficient, tuple(factors), product.binders, self.guards(product.guards)),)
            for moved in spread:
                here = algebra.multiply(here, moved)
            result.extend(here)
        return tuple(result)

    def factor(self, algebra: SumAlgebra, factor: Factor) -> Factor:
        """Return the factor with its free symbols replaced."""
        match factor:
            case Access(tensor, index, dtype):
                return Access(tensor, tuple(map(self.size, index)), dtype)
            case Entry(table, index):
                return Entry(table, tuple(map(self.size, index)))
            case Apply(function, arguments):
                return Apply(function, tuple(self.sum(algebra, a) for a in arguments))
            case Choice(relation, value, yes, no):
                return Choice(relation, *(self.sum(algebra, part) for part in (value, yes, no)))
            case Maximum(alternatives):
                return Maximum(tuple(self.bound(algebra, a) for a in alternatives))
            case Repeated(over):
                return Repeated(self.bound(algebra, over))
            case Quantity(size):
                return Quantity(self.size(size))
        return factor

    def bound(self, algebra: SumAlgebra, bound: Bound) -> Bound:
        """Return the bound with its free symbols replaced."""
        if self._reached & set(bound.binders):
            bound = algebra.renamed_bound(bound)
        return Bound(bound.binders, self.guards(bound.guards), self.sum(algebra, bound.value))
