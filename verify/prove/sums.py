"""Sums of guarded products: what scalars are in proofs over the reals.

A scalar is a sum of products  coefficient * factor * factor * ...,  each summed over all integer values of its bound
variables at which its guards hold. What is not polynomial is a factor: a function of sums, a choice by sign, a maximum
over bound variables, a product over one.
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
    """The number of a table at an index inside of it; a normal form over the reals has none (`verify.prove.tables`)."""

    table: Table
    index: Sizes


@dataclass(frozen=True)
class Real:
    """A symbolic real attribute (or another number that nothing is known about)."""

    name: str


@dataclass(frozen=True)
class Quantity:
    """A size or index as a real number; in normal form, one symbol or quotient of it."""

    size: Size


@dataclass(frozen=True)
class Apply:
    """A function of `verify.diagnose.functions`; `compare` knows some laws about some of them."""

    function: str
    arguments: tuple[SumOfProducts, ...]


@dataclass(frozen=True)
class Choice:
    """`yes` where `value` has the relation to 0, else `no`."""

    relation: str
    value: SumOfProducts
    yes: SumOfProducts
    no: SumOfProducts


@dataclass(frozen=True)
class Bound:
    """`value` at every value of the bound variables at which the guards hold."""

    binders: tuple[str, ...]
    guards: tuple[Guard, ...]
    value: SumOfProducts


@dataclass(frozen=True)
class Maximum:
    """The largest of all values."""

    alternatives: tuple[Bound, ...]


@dataclass(frozen=True)
class Repeated:
    """The product of all values."""

    over: Bound


Factor: TypeAlias = Union[Access, Entry, Real, Quantity, Apply, Choice, Maximum, Repeated]


@dataclass(frozen=True)
class Product:
    """coefficient * factors, summed over all integer values of `binders` at which every guard holds."""

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
    """The factor as a sum."""
    return (Product(ONE, (factor,)),)


def children(factor: Factor) -> Iterator[tuple[tuple[str, ...], tuple[Guard, ...], SumOfProducts]]:
    """The sums inside a factor, each with the bound variables and guards that it stands under."""
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
    """The quotients in a size, innermost first."""
    for atom in value.atoms() if isinstance(value, Dim) else ():
        if isinstance(atom, Quotient):
            yield from quotients_of(atom.numerator)
            yield from quotients_of(atom.denominator)
            yield atom


def only_factor(total: SumOfProducts) -> Factor | None:
    """The one factor that the sum is; None where it is anything else."""
    if len(total) == 1 and len(total[0].factors) == 1 and total == single(total[0].factors[0]):
        return total[0].factors[0]
    return None


def number_in(total: SumOfProducts) -> Fraction | None:
    """The value where it is a number."""
    if any(p.factors or p.binders or p.guards for p in total):
        return None
    return sum((p.coefficient for p in total), Fraction(0))
