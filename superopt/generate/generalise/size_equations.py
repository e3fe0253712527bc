"""Equations between sizes, solved for single sizes where that can be read off. Not trusted: only a proof counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from superopt.ir.dim import Atom, Dim, Size, evaluate, floor_div, symbol, symbols_of
from superopt.ir.infer import IllTyped
from superopt.ir.rule import Condition

__all__ = ["ratios", "solve", "ties", "unsolved"]


def solve(needs: Mapping[Condition, None], names: set[str]) -> dict[str, Size]:
    """Sizes that the equations give in terms of others, as far as they can be read off."""
    env: dict[str, Size] = {}
    for _ in range(2):  # what is found makes earlier equations simpler
        for condition in needs:
            if condition.relation == "==":
                value = _reduced(condition, env)
                found = _read_off(value, names)
                for name, size in _ones(value) or ([] if found is None else [found]):
                    env = {known: evaluate(old, {name: size}) for known, old in env.items()}
                    env[name] = size
    return env


def _ones(value: Size) -> list[tuple[str, Size]]:
    """Sizes whose sum is their number, where that is what must be 0: each is 1, the least that a size can be."""
    if not isinstance(value, Dim):
        return []
    sign = 1 if value.terms[-1][1] > 0 else -1
    named = [(monomial[0], c * sign) for monomial, c in value.terms if len(monomial) == 1]
    total = sum(c for _, c in named) + sign * sum(c for monomial, c in value.terms if not monomial)
    sizes = len(named) + sum(not monomial for monomial, _ in value.terms) == len(value.terms)
    if total or not sizes or any(c < 0 or not isinstance(name, str) or ".shape" not in name for name, c in named):
        return []
    return [(str(name), 1) for name, _ in named]


def ties(needs: Mapping[Condition, None], names: set[str]) -> tuple[int, int]:
    env = solve(needs, names)
    numbers = sum(isinstance(size, int) for size in env.values())
    return len(env) - numbers + len(unsolved(needs, env)), numbers


def unsolved(needs: Mapping[Condition, None], env: Mapping[str, Size]) -> dict[Dim, None]:
    """What must be 0 beside that; whether a number divides another aside, which leaves both of them free."""
    found: dict[Dim, None] = {}
    for condition in needs:
        value = _reduced(condition, env) if condition.relation == "==" else 0
        if isinstance(value, Dim) and -value not in found and not any(_is_remainder(value, a) for a in value.atoms()):
            found[value] = None
    return found


def _is_remainder(value: Dim, quotient: Atom) -> bool:
    if isinstance(quotient, str):
        return False
    rest = quotient.numerator - quotient.denominator * floor_div(quotient.numerator, quotient.denominator)
    times = math.gcd(*(coefficient for _, coefficient in value.terms))
    return times * rest in (value, -value)


def _reduced(condition: Condition, env: Mapping[str, Size]) -> Size:
    """What must be 0, without a size that is a factor of all of it."""
    try:
        value = evaluate(condition.right, env) - evaluate(condition.left, env)
    except ZeroDivisionError:
        raise IllTyped(f"{condition} divides by 0") from None
    while isinstance(value, Dim):
        (first, _), *rest = value.terms
        common = [atom for atom in first if rest and all(atom in monomial for monomial, _ in rest)]
        if not common or not isinstance(common[0], str):
            break
        value = floor_div(value, symbol(common[0]))
    return value


def _read_off(value: Size, names: set[str]) -> tuple[str, Size] | None:
    """A name and its size where `value` is 0."""
    if not isinstance(value, Dim):
        return None
    for monomial, coefficient in value.terms:
        name = monomial[0] if len(monomial) == 1 else None
        if not isinstance(name, str) or name not in names:
            continue
        offset = value - coefficient * symbol(name)
        if isinstance(offset, int) and offset % coefficient == 0:
            return name, -offset // coefficient
        if abs(coefficient) == 1:
            rest = -coefficient * offset
            if name not in symbols_of(rest):
                return name, rest
    return None


def ratios(values: Iterable[Dim], names: set[str]) -> dict[str, tuple[Size, Size]]:
    """Sizes that are quotients where these are 0: z[0] of z[0] * z[1] - x.shape[0] * x.shape[1]."""
    found: dict[str, tuple[Size, Size]] = {}
    for value in values:
        used = {*found, *(name for pair in found.values() for size in pair for name in symbols_of(size))}
        ratio = _as_ratio(value, names - used)
        if ratio is not None and found.keys().isdisjoint(value.symbols):
            name, product, by = ratio
            found[name] = (product, by)
    return found


def _as_ratio(value: Dim, names: set[str]) -> tuple[str, Size, Size] | None:
    """A name, and two sizes whose quotient it is where `value` is 0."""
    for monomial, coefficient in reversed(value.terms):
        for name in monomial:
            alone = [m for m, _ in value.terms if name in m] == [monomial] and monomial.count(name) == 1
            if alone and isinstance(name, str) and name in names and all(isinstance(a, str) for a in monomial):
                by = math.prod((symbol(str(atom)) for atom in monomial if atom != name), start=abs(coefficient))
                rest = by * symbol(name) - (value if coefficient > 0 else -value)
                if name not in symbols_of(rest):
                    return name, rest, by
    return None
