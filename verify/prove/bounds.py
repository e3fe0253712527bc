"""Decide guards without a solver, by points and by intervals.

A point at which the facts hold can show that a guard does not follow from them. Intervals of single symbols can show
that it does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from superopt.ir.dim import DataIndex, Dim, Size, evaluate, symbol, symbols_of
from superopt.ops.algebra import Guard

__all__ = ["Ranges", "Witness", "satisfies", "value_at"]

# A point: values of symbols at which some guards hold.
Witness: TypeAlias = Mapping[str, int]


class Ranges:
    """Lower and upper bounds of each symbol, from the guards on one symbol."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self._lower: dict[str, int] = {}
        self._upper: dict[str, int] = {}
        for g in guards:
            names = symbols_of(g.value)
            if g.relation != "<=" or len(names) != 1:
                continue
            (name,) = names
            least, most = symbol(name) - g.value, symbol(name) + g.value  # 0 <= name - least, 0 <= most - name
            if isinstance(least, int):
                self._lower[name] = max(least, self._lower.get(name, least))
            elif isinstance(most, int):
                self._upper[name] = min(most, self._upper.get(name, most))

    @property
    def empty(self) -> bool:
        """True if the bounds of some symbol contradict each other."""
        return any(name in self._upper and self._upper[name] < bound for name, bound in self._lower.items())

    def entail(self, guard: Guard) -> bool:
        """Return True if the guard is shown to hold wherever the symbols are in their ranges."""
        below = self._not_negative(guard.value)
        return below and (guard.relation == "<=" or self._not_negative(-guard.value))

    def ends(self, names: Collection[str], guards: Sequence[Guard]) -> list[Witness]:
        """Return the points at the ends of the ranges of all `names` that satisfy `guards`."""
        if not all(name in self._lower or name in self._upper for name in names):
            return []
        points = {**self._upper, **self._lower}, {**self._lower, **self._upper}
        return [point for point in points if satisfies(point, guards)]

    def _not_negative(self, value: Size) -> bool:
        """Return True if 0 <= value follows from the ranges, by one of two arguments.

        In terms of (symbol - lower bound) no coefficient is negative; or the value is linear, and at least 0 with each
        symbol at the end of its range that makes the value smallest.
        """
        if not isinstance(value, Dim) or not all(isinstance(atom, str) for atom in value.atoms()):
            return False
        names = symbols_of(value)
        if names <= self._lower.keys():
            shifted = evaluate(value, {name: symbol(name) + self._lower[name] for name in names})
            if isinstance(shifted, int):
                return shifted >= 0
            if all(coefficient >= 0 for _, coefficient in shifted.terms):
                return True
        least = 0
        for monomial, coefficient in value.terms:
            if len(monomial) > 1:
                return False
            end = (self._lower if coefficient > 0 else self._upper).get(str(monomial[0])) if monomial else 1
            if end is None:
                return False
            least += coefficient * end
        return least >= 0


def satisfies(point: Witness, guards: Iterable[Guard]) -> bool:
    """Return True if all guards hold at a point; False if the value of some guard is not known there."""
    for guard in guards:
        value = value_at(guard.value, point)
        if value is None or not (value == 0 if guard.relation == "==" else value >= 0):
            return False
    return True


def value_at(value: Size, point: Witness) -> int | None:
    """Return the value of a size at a point; None if the point lacks a symbol, or a divisor is less than 1, or an
    element of a tensor is an index."""
    if isinstance(value, int):
        return value
    total = 0
    for monomial, coefficient in value.terms:
        for atom in monomial:
            if isinstance(atom, str):
                if atom not in point:
                    return None
                coefficient *= point[atom]
            elif isinstance(atom, DataIndex):
                return None
            else:
                n, d = value_at(atom.numerator, point), value_at(atom.denominator, point)
                if n is None or d is None or d < 1:
                    return None
                coefficient *= n // d
        total += coefficient
    return total
