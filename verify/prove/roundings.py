"""Count the rounded operations that one element of a result passes through: the factor in a rule's error bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from superopt.ir.dim import Size, Sizes, symbol
from superopt.ir.term import Term
from superopt.ops.algebra import Guard, Piece, Table
from superopt.ops.meaning import Meaning

__all__ = ["roundings"]


def roundings(terms: Sequence[Term]) -> Size:
    """Return the largest count over all elements of all outputs, or an upper bound of it."""
    meaning = Meaning(_Count())
    total: Size = 0
    for term in terms:
        assert term.type is not None and term.type.shape is not None
        place = tuple(0 if size == 1 else symbol(f"i!{d}") for d, size in enumerate(term.type.shape))
        total = _larger(total, meaning.scalar(term, place).total)
    return total


def _larger(left: Size, right: Size) -> Size:
    """Return the larger of two counts if it is the same one for all sizes (from 1 up), else their sum."""
    difference = right - left
    if isinstance(difference, int):
        return right if difference >= 0 else left
    coefficients = [c for atoms, c in difference.terms if atoms]
    constant = sum(c for atoms, c in difference.terms if not atoms)
    if any(not isinstance(a, str) for a in difference.atoms()):
        return left + right
    if all(c > 0 for c in coefficients) and sum(coefficients) + constant >= 0:
        return right
    if all(c < 0 for c in coefficients) and sum(coefficients) + constant <= 0:
        return left
    return left + right


@dataclass(frozen=True)
class _Sum:
    """A sum of `terms` summands that have passed through `each` roundings each."""

    terms: Size = 1
    each: Size = 0

    @property
    def total(self) -> Size:
        """The roundings of the sum: n summands take n - 1 additions in any order; one may pass through all of them."""
        return self.each + self.terms - 1


class _Count:
    """The algebra of counts: the number of roundings on the longest path to a scalar."""

    def constant(self, value: Fraction) -> _Sum:
        return _Sum()

    def real(self, name: str) -> _Sum:
        return _Sum()

    def size(self, value: Size) -> _Sum:
        return _Sum()

    def access(self, tensor: str, index: Sizes) -> _Sum:
        return _Sum()

    def data_index(self, value: _Sum, size: Size) -> Size:
        return 0 if size == 1 else symbol("index!")

    def entry(self, table: Table, index: Sizes) -> _Sum:
        return _Sum()

    def add(self, *parts: _Sum) -> _Sum:
        """Join the summands into one sum: a runtime may add them in any order."""
        terms: Size = 0
        for part in parts:
            terms = terms + part.terms
        return _Sum(terms, _largest([part.each for part in parts]))

    def multiply(self, left: _Sum, right: _Sum) -> _Sum:
        """(1 + d)**a * (1 + d)**b * (1 + d)."""
        return _Sum(1, left.total + right.total + 1)

    def apply(self, function: str, *arguments: _Sum) -> _Sum:
        return _Sum(1, _largest([a.total for a in arguments]) + 1)

    def choose(self, relation: str, value: _Sum, yes: _Sum, no: _Sum) -> _Sum:
        return self.maximum([yes, no])

    def maximum(self, parts: Sequence[_Sum]) -> _Sum:
        return _Sum(1, _largest([part.total for part in parts]))

    def summation(self, size: Size, body: Callable[[Size], _Sum]) -> _Sum:
        one = body(0 if size == 1 else symbol("k!"))
        return _Sum(one.terms * size, one.each)

    def product(self, size: Size, body: Callable[[Size], _Sum]) -> _Sum:
        one = body(0 if size == 1 else symbol("k!"))
        return _Sum(1, (one.total + 1) * size)

    def supremum(self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., _Sum]) -> _Sum:
        return _Sum(1, body(*(0 if size == 1 else symbol(f"k!{d}") for d, size in enumerate(sizes))).total)

    def where(self, conditions: Sequence[Guard], body: Callable[[], _Sum]) -> _Sum:
        return body()

    def piecewise(self, pieces: Sequence[Piece], otherwise: _Sum | None) -> _Sum:
        bodies = [body() for _, body in pieces]
        return bodies[0] if len(bodies) == 1 else self.maximum(bodies)


def _largest(parts: Sequence[Size]) -> Size:
    total: Size = 0
    for part in parts:
        total = _larger(total, part)
    return total
