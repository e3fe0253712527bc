"""The interface that definitions of operators are written against: scalars and arithmetic on them.

A definition in `superopt.ops` is one function. Each algebra interprets its scalars differently:
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

        A number is decided, and so is an equation without integer solutions, such as 2 * m == 2 * n + 1.
        """
        if isinstance(self.value, int):
            return self.value == 0 if self.relation == "==" else self.value >= 0
        if self.relation == "==":  # 2 * m == 2 * n + 1
            step = math.gcd(*(coefficient for monomial, coefficient in self.value.terms if monomial))
            if any(not monomial and coefficient % step for monomial, coefficient in self.value.terms):
                return False
        return None

    def negated(self) -> Guard:
        """Return the negation of an inequality: not (0 <= v) is 0 <= -v - 1."""
        assert self.relation == "<="
        return Guard("<=", -self.value - 1)


def at_least(value: Size, bound: Size) -> Guard:
    """Return the guard bound <= value."""
    return Guard("<=", value - bound)


def below(value: Size, bound: Size) -> Guard:
    """Return the guard value < bound."""
    return Guard("<=", bound - value - 1)


def equal(left: Size, right: Size) -> Guard:
    """Return the guard left == right."""
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
    """Operations on scalars. Truth values are the scalars 0 and 1; integers are scalars too."""

    def constant(self, value: Fraction) -> Any: ...
    def real(self, name: str) -> Any:
        """Return a real attribute as a scalar."""

    def size(self, value: Size) -> Any:
        """Return a size or an index as a scalar."""

    def access(self, tensor: str, index: Sizes) -> Any:
        """Return the element of an input tensor at an index."""

    def data_index(self, value: Any, size: Size) -> Size:
        """Return an integer, a scalar, as an index along an axis of this size. A negative one counts from the end.

        It is assumed to be in range: -size <= value < size.
        """

    def entry(self, table: Table, index: Sizes) -> Any:
        """Return the number in a table at an index."""

    def add(self, *parts: Any) -> Any: ...
    def multiply(self, left: Any, right: Any) -> Any: ...
    def apply(self, function: str, *arguments: Any) -> Any:
        """Apply a scalar function (their names are in `verify.diagnose.functions`)."""

    def choose(self, relation: str, value: Any, yes: Any, no: Any) -> Any:
        """Return `yes` if `value` has the relation > >= or == to 0, else `no`."""

    def maximum(self, parts: Sequence[Any]) -> Any:
        """Return the largest of one or more scalars."""

    def summation(self, size: Size, body: Callable[[Size], Any]) -> Any:
        """Return the sum of body(k) over 0 <= k < size."""

    def product(self, size: Size, body: Callable[[Size], Any]) -> Any:
        """Return the product of body(k) over 0 <= k < size."""

    def supremum(self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., Any]) -> Any:
        """Return the largest body(k1, k2, ...) over 0 <= kd < sizes[d] that satisfy the conditions (at least one)."""

    def where(self, conditions: Sequence[Guard], body: Callable[[], Any]) -> Any:
        """Return body() if every condition holds, else 0."""

    def piecewise(self, pieces: Sequence[Piece], otherwise: Any | None) -> Any:
        """Return the body of the piece whose conditions all hold, else `otherwise`. Pieces exclude each other.

        The value is moved, not computed; a sum of `where` would be arithmetic.
        """
