"""Proposals of points at which guards may hold. `verify.prove.bounds.satisfies` checks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from superopt.ir.dim import Dim, symbols_of
from superopt.ops.algebra import Guard
from verify.prove.bounds import Witness, value_at

__all__ = ["completed", "simple_points"]


def simple_points(names: Iterable[str], guards: Sequence[Guard], least: int, most: int) -> Iterator[Witness]:
    """Yield points at which guards often hold: all sizes equal to 2, 4 or 6, and all other symbols 1.

    If a guard fixes a product of symbols (c x y = n), a second point gives these symbols factors of the number. Only
    points with sizes from `least` to `most` are yielded.
    """
    names = list(names)
    factors = {name: size for guard in guards for name, size in _factors(guard, most)}
    for size in (2, 4, 6):
        point = {name: size if ".shape" in name else 1 for name in names}
        for wanted in (point, point | factors) if factors else (point,):
            if all(least <= wanted[name] <= most for name in names if ".shape" in name):
                yield wanted


def _factors(guard: Guard, most: int) -> Iterator[tuple[str, int]]:
    """Yield similar values for the symbols whose product the guard fixes; nothing if a prime factor exceeds `most`."""
    terms = dict(guard.value.terms) if guard.relation == "==" and isinstance(guard.value, Dim) else {}
    number = -terms.pop((), 0)
    if len(terms) != 1:
        return
    ((monomial, coefficient),) = terms.items()
    names = [atom for atom in monomial if isinstance(atom, str)]
    if len(set(names)) < len(monomial) or number % coefficient or number // coefficient < 1:
        return
    left, primes = number // coefficient, list[int]()
    for divisor in range(2, most + 1):
        while left % divisor == 0:
            primes.append(divisor)
            left //= divisor
    sizes = [1] * len(names)
    for prime in reversed(primes):
        sizes[sizes.index(min(sizes))] *= prime
    if left == 1:
        yield from zip(names, sizes, strict=True)


def completed(point: Witness, guards: Sequence[Guard]) -> Witness:
    """Add values for the symbols of `guards` that the point lacks: the least that each symbol's lower bounds allow."""
    result = dict(point)
    for guard in guards:
        for name in sorted(symbols_of(guard.value) - result.keys()):
            # a lower bound of k is a guard 0 <= k + rest: k is at least -rest
            rests = [value_at(other.value, {**result, name: 0}) for other in guards if other.relation == "<="]
            result[name] = max([0, *(-rest for rest in rests if rest is not None and rest < 0)])
    return result
