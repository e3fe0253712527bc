"""Sums of guarded products: the form of scalars in proofs over the reals.

A scalar is a sum of products  coefficient * factor * factor * ...,  each summed over all integer values of its bound
variables at which its guards hold. Every operation other than addition and multiplication is a factor: a function of
sums, a choice by sign, a maximum over bound variables, a product over a bound variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol, TypeAlias, Union

from superopt.ir.dim import DataIndex, Dim, Quotient, Size, Sizes, symbols_of
from superopt.ops.algebra import Guard, Table

__all__ = [
    "ONE", "Access", "Apply", "Bound", "Choice", "Entry", "Factor", "Maximum", "Product", "Quantity", "Real",
    "Repeated", "SumOfProducts", "SumAlgebra", "bound_inside", "children", "free", "mentioned", "mentioned_by",
    "number_in", "only_factor", "quotients_in", "quotients_of", "single", "sizes_in",
]  # fmt: skip

ONE = Fraction(1)


@dataclass(frozen=True)
class Access:
    """The element of an input tensor at an index. A truth value is 0 or 1."""

    tensor: str
    index: Sizes
    dtype: str = "float"

    @property
    def truth(self) -> bool:
        """True for an element of a tensor of truth values."""
        return self.dtype == "bool"


@dataclass(frozen=True)
class Entry:
    """The number in a table at an index inside its shape. Normal forms contain none (`verify.prove.tables`)."""

    table: Table
    index: Sizes


@dataclass(frozen=True)
class Real:
    """A symbolic real attribute (or another unknown number)."""

    name: str


@dataclass(frozen=True)
class Quantity:
    """A size or index as a real number; in normal form, a single symbol or quotient."""

    size: Size


@dataclass(frozen=True)
class Apply:
    """An application of a function (`verify.diagnose.functions`); laws are in `application.py` and `laws.py`."""

    function: str
    arguments: tuple[SumOfProducts, ...]


@dataclass(frozen=True)
class Choice:
    """The scalar `yes` if `value` has the relation to 0, else `no`."""

    relation: str
    value: SumOfProducts
    yes: SumOfProducts
    no: SumOfProducts


@dataclass(frozen=True)
class Bound:
    """A set of values: `value` for all values of the bound variables at which the guards hold."""

    binders: tuple[str, ...]
    guards: tuple[Guard, ...]
    value: SumOfProducts


@dataclass(frozen=True)
class Maximum:
    """The largest of all values of all alternatives."""

    alternatives: tuple[Bound, ...]


@dataclass(frozen=True)
class Repeated:
    """The product of all values of `over`."""

    over: Bound


Factor: TypeAlias = Union[Access, Entry, Real, Quantity, Apply, Choice, Maximum, Repeated]


@dataclass(frozen=True)
class Product:
    """The sum of coefficient * factors over all integer values of `binders` at which every guard holds.

    Products nest, and are asked the same questions again and again: they keep the answers.
    """

    coefficient: Fraction
    factors: tuple[Factor, ...] = ()
    binders: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()

    @cached_property
    def _hash(self) -> int:
        return hash((self.coefficient, self.factors, self.binders, self.guards))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _text(self) -> str:
        parts = f"coefficient={self.coefficient!r}, factors={self.factors!r}"
        return f"Product({parts}, binders={self.binders!r}, guards={self.guards!r})"

    def __repr__(self) -> str:
        return self._text

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The index symbols in the product, those that are bound too."""
        return mentioned(self.factors).union(*(symbols_of(g.value) for g in self.guards))

    @cached_property
    def free(self) -> frozenset[str]:
        """The index symbols in the product that are not bound in it."""
        found = set().union(*(symbols_of(g.value) for g in self.guards))
        for factor in self.factors:
            found.update(*map(symbols_of, sizes_in(factor)))
            for binders, guards, part in children(factor):
                inside = free(part).union(*(symbols_of(g.value) for g in guards))
                found |= inside.difference(binders)
        return frozenset(found.difference(self.binders))

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that are bound in the product or somewhere inside."""
        inside = (part for factor in self.factors for part in children(factor))
        return frozenset(self.binders).union(*(bound_inside(part).union(names) for names, _, part in inside))

    @cached_property
    def quotients(self) -> tuple[Quotient, ...]:
        """All quotients of sizes and indices in the product, innermost first."""
        found = [q for guard in self.guards for q in quotients_of(guard.value)]
        for factor in self.factors:
            found += (q for size in sizes_in(factor) for q in quotients_of(size))
            for _, guards, part in children(factor):
                found += quotients_in(part, guards)
        return tuple(found)


SumOfProducts: TypeAlias = tuple[Product, ...]


class SumAlgebra(Protocol):
    """The operations on sums that substitution and the laws of functions need (`verify.prove.symbolic.Symbolic`)."""

    unfolded: bool

    def constant(self, value: Fraction) -> SumOfProducts: ...
    def size(self, value: Size) -> SumOfProducts: ...
    def add(self, *parts: SumOfProducts) -> SumOfProducts: ...
    def multiply(self, left: SumOfProducts, right: SumOfProducts) -> SumOfProducts: ...
    def choose(self, relation: str, value: SumOfProducts, yes: SumOfProducts, no: SumOfProducts) -> SumOfProducts: ...
    def of_alternatives(self, alternatives: tuple[Bound, ...]) -> SumOfProducts: ...
    def renamed(self, product: Product) -> Product: ...
    def renamed_bound(self, bound: Bound) -> Bound: ...


def single(factor: Factor) -> SumOfProducts:
    """Return the factor as a sum."""
    return (Product(ONE, (factor,)),)


def children(factor: Factor) -> Iterator[tuple[tuple[str, ...], tuple[Guard, ...], SumOfProducts]]:
    """Yield the sums inside a factor, each with the bound variables and guards over it."""
    match factor:
        case Apply(_, arguments):
            yield from (((), (), a) for a in arguments)
        case Choice(_, value, yes, no):
            yield from (((), (), part) for part in (value, yes, no))
        case Maximum(alternatives):
            yield from ((a.binders, a.guards, a.value) for a in alternatives)
        case Repeated(over):
            yield (over.binders, over.guards, over.value)


def sizes_in(factor: Factor) -> Sizes:
    """Return the sizes and indices of a factor, without those of the sums inside it."""
    if isinstance(factor, (Access, Entry)):
        return factor.index
    return (factor.size,) if isinstance(factor, Quantity) else ()


def mentioned(factors: Iterable[Factor]) -> frozenset[str]:
    """Return the index symbols in factors."""
    found: set[str] = set()
    for factor in factors:
        found.update(*map(symbols_of, sizes_in(factor)))
        for _, guards, total in children(factor):
            found.update(*(symbols_of(g.value) for g in guards), mentioned_by(total))
    return frozenset(found)


def mentioned_by(total: SumOfProducts) -> frozenset[str]:
    """Return the index symbols in a sum."""
    return frozenset().union(*(product.mentioned for product in total))


def free(total: SumOfProducts) -> frozenset[str]:
    """Return the free index symbols of a sum."""
    return frozenset().union(*(product.free for product in total))


def bound_inside(total: SumOfProducts) -> frozenset[str]:
    """Return the names that are bound somewhere in a sum."""
    return frozenset().union(*(product.bound for product in total))


def quotients_in(total: SumOfProducts, guards: Iterable[Guard] = ()) -> Iterator[Quotient]:
    """Yield the quotients of sizes and indices in guards and in a sum, innermost first."""
    for guard in guards:
        yield from quotients_of(guard.value)
    for product in total:
        yield from product.quotients


def quotients_of(value: Size) -> Iterator[Quotient]:
    """Yield the quotients in a size, innermost first."""
    for atom in value.atoms() if isinstance(value, Dim) else ():
        if isinstance(atom, Quotient):
            yield from quotients_of(atom.numerator)
            yield from quotients_of(atom.denominator)
            yield atom
        elif isinstance(atom, DataIndex):
            for size in (*atom.place, atom.size):
                yield from quotients_of(size)


def only_factor(total: SumOfProducts) -> Factor | None:
    """Return the factor f if the sum is just f, else None."""
    if len(total) == 1 and len(total[0].factors) == 1 and total == single(total[0].factors[0]):
        return total[0].factors[0]
    return None


def number_in(total: SumOfProducts) -> Fraction | None:
    """Return the value of the sum if it is a number, else None."""
    if any(p.factors or p.binders or p.guards for p in total):
        return None
    return sum((p.coefficient for p in total), Fraction(0))
