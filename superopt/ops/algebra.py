"""The interface that definitions of operators are written against: scalars and the operations of mathematics.

A definition in `superopt.ops` is one function; each algebra gives it another reading:
    `Symbolic`  sums of guarded products, for proofs over the reals (`verify.prove.symbolic`)
    `Floating`  trees of rounded operations, for proofs of bit-for-bit equality (`verify.prove.floating`)
    `Numeric`   numbers, for tests of the definitions and for counterexamples (`verify.diagnose.numeric`)
    `Floats`    arrays of floats and integers, for folding constants (`superopt.evaluate.floats`)
    `Residues`  arrays modulo a prime, for fingerprints (`superopt.evaluate.modular`)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

from superopt.ir.dim import Size, Sizes

__all__ = ["Algebra", "Guard", "Piece", "Table", "at_least", "below", "equal", "holds"]


@dataclass(frozen=True)
class Guard:
    """A condition on indices and sizes: `value == 0` (relation "==") or `0 <= value` (relation "<=")."""

    relation: str
    value: Size

    @cached_property
    def _hash(self) -> int:
        return hash((self.relation, self.value))

    def __hash__(self) -> int:
        return self._hash

    def decided(self) -> bool | None:
        """Return the truth value if it is the same for all symbols, else None.

        That is so for a number, and for an equation that no integers solve, such as 2 * m == 2 * n + 1.
        """
        if isinstance(self.value, int):
            return self.value == 0 if self.relation == "==" else self.value >= 0
        if self.relation == "==":  # 2 * m == 2 * n + 1
            step = math.gcd(*(coefficient for monomial, coefficient in self.value.terms if monomial))
            if any(not monomial and coefficient % step for monomial, coefficient in self.value.terms):
                return False
        return None

    def negated(self) -> Guard:
        """not (0 <= v) is 0 <= -v - 1. Only for inequalities."""
        assert self.relation == "<="
        return Guard("<=", -self.value - 1)


def at_least(value: Size, bound: Size) -> Guard:
    """bound <= value."""
    return Guard("<=", value - bound)


def below(value: Size, bound: Size) -> Guard:
    """value < bound."""
    return Guard("<=", bound - value - 1)


def equal(left: Size, right: Size) -> Guard:
    """left == right."""
    return Guard("==", left - right)


def holds(relation: str, value: float | Fraction) -> bool:
    """Return True if the number `value` has the relation to 0: one of > >= == (see `Algebra.choose`)."""
    return {">": value > 0, ">=": value >= 0, "==": value == 0}[relation]


@dataclass(frozen=True)
class Table:
    """A tensor of known numbers, in row-major order."""

    shape: tuple[int, ...]
    values: tuple[Fraction, ...]

    def __getitem__(self, place: tuple[int, ...]) -> Fraction:
        position = 0
        for k, size in zip(place, self.shape, strict=True):
            position = position * size + k
        return self.values[position]


Piece = tuple[Sequence[Guard], Callable[[], Any]]


class Algebra(Protocol):
    """Scalars. Truth values are the scalars 0 and 1; integers are scalars too."""

    def constant(self, value: Fraction) -> Any: ...
    def real(self, name: str) -> Any:
        """A real attribute."""

    def size(self, value: Size) -> Any:
        """A size or an index as a scalar."""

    def access(self, tensor: str, index: Sizes) -> Any:
        """The element of an input tensor at an index."""

    def entry(self, table: Table, index: Sizes) -> Any:
        """The number of a table at an index."""

    def add(self, *parts: Any) -> Any: ...
    def multiply(self, left: Any, right: Any) -> Any: ...
    def apply(self, function: str, *arguments: Any) -> Any:
        """A function of `verify.diagnose.functions`, element by element."""

    def choose(self, relation: str, value: Any, yes: Any, no: Any) -> Any:
        """`yes` where value > 0, value >= 0 or value == 0 (`relation` is the sign), else `no`."""

    def maximum(self, parts: Sequence[Any]) -> Any:
        """The largest of one or more scalars."""

    def summation(self, size: Size, body: Callable[[Size], Any]) -> Any:
        """sum over 0 <= k < size of body(k)."""

    def product(self, size: Size, body: Callable[[Size], Any]) -> Any:
        """product over 0 <= k < size of body(k)."""

    def supremum(self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., Any]) -> Any:
        """The largest body(k1, k2, ...) over 0 <= kd < sizes[d] at which the conditions hold (at one at least)."""

    def where(self, conditions: Sequence[Guard], body: Callable[[], Any]) -> Any:
        """body() where every condition holds, else 0."""

    def piecewise(self, pieces: Sequence[Piece], otherwise: Any | None) -> Any:
        """The body of the piece whose conditions all hold, else `otherwise`. Pieces exclude each other.

        No arithmetic is meant, as it is with a sum of `where`: the value is moved, not computed.
        """
