"""Sums of guarded products: the form of scalars in proofs over the reals.

A scalar is a sum of products  coefficient * factor * factor * ...,  each summed over all integer values of its bound
variables at which its guards hold. Every operation other than addition and multiplication is a factor: a function of
sums, a choice by sign, a maximum over bound variables, a product over a bound variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol, TypeAlias, Union

from superopt.ir.dim import Dim, Quotient, Size, Sizes
from superopt.ops.algebra import Guard, Table

__all__ = [
    "ONE", "Access", "Apply", "Bound", "Choice", "Entry", "Factor", "Maximum", "Product", "Quantity", "Real",
    "Repeated", "SumOfProducts", "SumAlgebra", "children", "number_in", "only_factor", "quotients_of", "single",
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
    """The sum of coefficient * factors over all integer values of `binders` at which every guard holds."""

    coefficient: Fraction
    factors: tuple[Factor, ...] = ()
    binders: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()

    @cached_property
    def _hash(self) -> int:
        return hash((self.coefficient, self.factors, self.binders, self.guards))

    def __hash__(self) -> int:  # sums nest, and are looked up often
        return self._hash


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


def quotients_of(value: Size) -> Iterator[Quotient]:
    """Yield the quotients in a size, innermost first."""
    for atom in value.atoms() if isinstance(value, Dim) else ():
        if isinstance(atom, Quotient):
            yield from quotients_of(atom.numerator)
            yield from quotients_of(atom.denominator)
            yield atom


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
