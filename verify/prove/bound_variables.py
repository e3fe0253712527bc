"""Bound variables: solving for them, splitting them into digits, and eliminating them.

All steps keep the set of points: a variable with one value is replaced by it, an index that is divided becomes
quotient and remainder (mixed radix), and a variable that only guards mention is projected away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from superopt.ir.dim import Dim, Quotient, Size, floor_div, symbol, symbols_of
from superopt.ops.algebra import Guard, at_least, below
from verify.prove.facts import Facts
from verify.prove.substitution import Substitution
from verify.prove.sums import SumOfProducts, bound_inside, quotients_in

__all__ = [
    "Digits", "Limits", "digits", "free_quotients", "inhabited", "limits", "one_point", "projected", "solve", "strided",
    "vanishing", "within",
]  # fmt: skip


def solve(value: Size, names: Sequence[str]) -> Iterator[tuple[str, Size]]:
    """Yield (k, e) such that value == 0 if and only if k == e, for each k of `names` that can be solved for.

    After division by the common factor of `value`, k must occur in one term only, with coefficient 1 or -1.
    """
    if isinstance(value, Dim):
        value = floor_div(value, math.gcd(*(coefficient for _, coefficient in value.terms)))
    if isinstance(value, Dim):
        for monomial, coefficient in value.terms:
            if len(monomial) == 1 and monomial[0] in names and abs(coefficient) == 1:
                name = str(monomial[0])
                rest = value - coefficient * symbol(name)
                if name not in symbols_of(rest):
                    yield name, -coefficient * rest


def _tightened(value: Size) -> Size:
    """Tighten 0 <= g * v + c to the equivalent 0 <= v + floor(c / g)."""
    if not isinstance(value, Dim):
        return value
    return floor_div(value, math.gcd(*(coefficient for monomial, coefficient in value.terms if monomial)))


def strided(names: Sequence[str], total: SumOfProducts) -> tuple[str, int] | None:
    """Return an index of `names` and a stride if some guard is k * stride + ... == index, for a bound variable k."""
    for product in total:
        for guard in product.guards:
            value = guard.value
            if guard.relation == "==" and isinstance(value, Dim):
                steps = [abs(c) for monomial, c in value.terms if monomial and monomial[0] in product.binders]
                for name in names:
                    if _coefficient(value, name) is not None and any(step > 1 for step in steps):
                        return name, max(steps)
    return None


def one_point(binders: Sequence[str], guards: Sequence[Guard]) -> tuple[str, Size] | None:
    """Return a bound variable and the one value that the guards allow: v == 0, or both 0 <= v and 0 <= -v."""
    lows = {_tightened(g.value) for g in guards if g.relation == "<="}
    for guard in guards:
        value = guard.value if guard.relation == "==" else _tightened(guard.value)
        if guard.relation == "==" or -value in lows:
            found = next(solve(value, binders), None)
            if found is not None:
                return found
    return None


@dataclass(frozen=True)
class Limits:
    """The guards that mention k: bounds lowers <= k < uppers if k has coefficient 1 or -1, and the other guards."""

    lowers: tuple[Size, ...]
    uppers: tuple[Size, ...]
    others: tuple[Guard, ...]


def limits(name: str, guards: Iterable[Guard]) -> Limits:
    """Return the guards on the bound variable `name` as bounds."""
    lowers: list[Size] = []
    uppers: list[Size] = []
    others: list[Guard] = []
    for guard in guards:
        if name not in symbols_of(guard.value):
            continue
        coefficient = _coefficient(guard.value, name)
        rest = guard.value - (coefficient or 0) * symbol(name)
        if guard.relation == "<=" and coefficient == 1:
            lowers.append(-rest)
        elif guard.relation == "<=" and coefficient == -1:
            uppers.append(rest + 1)
        else:
            others.append(guard)
    return Limits(tuple(lowers), tuple(uppers), tuple(others))


def _coefficient(value: Size, name: str) -> int | None:
    """Return the symbol's coefficient if it is 1 or -1 and the symbol occurs in no other term, else None."""
    for monomial, coefficient in value.terms if isinstance(value, Dim) else ():
        if monomial == (name,) and abs(coefficient) == 1 and name not in symbols_of(value - coefficient * symbol(name)):
            return coefficient
    return None


def projected(name: str, guards: Sequence[Guard]) -> tuple[Guard, ...] | None:
    """Return guards that hold if and only if some integer k satisfies `guards` (Fourier-Motzkin elimination).

    The elimination is exact over the integers because k has coefficient 1 or -1; None if it has not.
    """
    found = limits(name, guards)
    if found.others or not found.lowers or not found.uppers:
        return None
    kept = [g for g in guards if name not in symbols_of(g.value)]
    return (*kept, *(below(low, high) for low in found.lowers for high in found.uppers))


def inhabited(facts: Facts, binders: Sequence[str], guards: Sequence[Guard]) -> bool:
    """Return True if the guards are shown to hold at some value of the bound variables."""
    left: Sequence[Guard] = guards
    for name in reversed(binders):
        found = projected(name, left)
        if found is None:
            return False
        left = found
    return all(facts.entails(g) for g in left)


def free_quotients(total: SumOfProducts) -> Iterator[Quotient]:
    """Yield the quotients that mention no bound variable, innermost first."""
    bound = bound_inside(total)
    for quotient in quotients_in(total):
        if bound.isdisjoint(symbols_of(quotient.numerator) | symbols_of(quotient.denominator)):
            yield quotient


@dataclass(frozen=True)
class Digits:
    """The split k = quotient * d + remainder - rest of a bound variable k, with 0 <= remainder < d."""

    name: str
    quotient: str
    remainder: str
    moved: Substitution
    denominator: Size
    rest: Size

    def guards(self, guards: Iterable[Guard]) -> tuple[Guard, ...]:
        """Return the guards in terms of the digits. A bound that d divides becomes a bound of the quotient alone."""
        q, r = symbol(self.quotient), symbol(self.remainder)
        found = [at_least(r, 0), below(r, self.denominator)]
        for guard in guards:
            coefficient = _coefficient(guard.value, self.name) if guard.relation == "<=" else None
            edge: Size | None = None
            if coefficient is not None:
                rest = guard.value - coefficient * symbol(self.name)
                low = -rest if coefficient == 1 else rest + 1  # low <= k, or k < low
                edge = self.moved.size(low + self.rest)
                exact = floor_div(edge, self.denominator)
                edge = exact if exact * self.denominator == edge else None
            if edge is None:
                found.append(Guard(guard.relation, self.moved.size(guard.value)))
            else:
                found.append(at_least(q, edge) if coefficient == 1 else below(q, edge))
        return tuple(found)


def digits(names: Sequence[str], quotients: Iterable[Quotient], fresh: Callable[[], str]) -> Digits | None:
    """Return the split of a k of `names` that occurs in a quotient floor((k + rest) / d), or None."""
    for found in quotients:
        inner = symbols_of(found.denominator)
        for name in names:
            if name in inner or _coefficient(found.numerator, name) != 1:
                continue
            rest = found.numerator - symbol(name)
            q, r = fresh(), fresh()
            value = symbol(q) * found.denominator + symbol(r) - rest
            return Digits(name, q, r, Substitution({name: value}, {found: symbol(q)}), found.denominator, rest)
    return None


def vanishing(facts: Facts, quotients: Iterable[Quotient]) -> dict[Quotient, Size]:
    """Return the quotients floor(n / d) that are shown to be 0, because 0 <= n < d."""
    found: dict[Quotient, Size] = {}
    for quotient in dict.fromkeys(quotients):
        n, d = quotient.numerator, quotient.denominator
        if all(map(facts.easily_entails, within(n, d))):
            found[quotient] = 0
    return found


def within(numerator: Size, denominator: Size) -> tuple[Guard, Guard]:
    """Return the guards 0 <= n < d, under which floor(n / d) is 0."""
    return at_least(numerator, 0), below(numerator, denominator)
