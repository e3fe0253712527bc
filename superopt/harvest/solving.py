"""Small numbers for symbolic sizes under conditions, by elimination and depth-first search."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from superopt.ir.dim import Dim, Size, evaluate, floor_div, symbol, symbols_of
from superopt.ir.rule import Condition

__all__ = ["solve"]

_MAX_TRIALS = 300
_MAX_SIZE = 40


def solve(largest: Mapping[str, int], conditions: Collection[Condition]) -> dict[str, int] | None:
    """Return a number from 2 for each symbol that meets all conditions, or None if none is found.

    `largest` has the symbols, each with its own size in the model, which is not exceeded by free symbols. Different
    symbols get different numbers if possible, so that equal sizes in a window are no coincidence; small ones first.
    """
    chosen, rest = _eliminated(largest, conditions)
    free = sorted((name for name in largest if name not in chosen), key=lambda name: (largest[name], name))
    due: list[list[Condition]] = [[] for _ in range(len(free) + 1)]  # conditions known after the first k symbols
    for condition in rest:
        names = symbols_of(condition.left) | symbols_of(condition.right)
        due[max((free.index(name) + 1 for name in names), default=0)].append(condition)
    fallback: dict[str, int] | None = None
    if not all(_holds(condition, {}) for condition in due[0]):
        return None
    for trial, values in enumerate(_assignments(free, largest, due)):
        found = dict(values)
        for name in reversed(chosen):
            size = evaluate(chosen[name], dict(found))
            if not isinstance(size, int) or size < 2:
                break
            found[name] = size
        else:
            if len(set(found.values())) == len(found):
                return found
            fallback = fallback or found
        if trial == _MAX_TRIALS:
            break
    return fallback


def _eliminated(
    largest: Mapping[str, int], conditions: Collection[Condition]
) -> tuple[dict[str, Size], list[Condition]]:
    """Solve equations for single symbols. Return their values over later ones, and the conditions that are left.

    Of a product or sum, 768 = 12 * 64, the largest symbol is replaced.
    """
    chosen: dict[str, Size] = {}
    rest = [_cancelled(c) for c in conditions]
    while True:
        candidates = [
            (largest[name], name, other)
            for c in rest
            if c.relation == "=="
            for side, other in ((c.left, c.right), (c.right, c.left))
            for name in symbols_of(side)
            if side == symbol(name) and name not in symbols_of(other)
        ]
        if not candidates:
            return chosen, list(dict.fromkeys(rest))
        _, name, other = max(candidates, key=lambda found: (found[0], found[1], str(found[2])))
        chosen[name] = other
        env = {name: other}
        rest = [_cancelled(Condition(c.relation, evaluate(c.left, env), evaluate(c.right, env))) for c in rest]
        rest = [c for c in rest if not _is_trivial(c)]


def _cancelled(condition: Condition) -> Condition:
    """Return the condition without the symbols that all monomials of both sides have: 32*s = 32*h*w is s = h*w."""
    sides = (condition.left, condition.right)
    if not all(isinstance(side, Dim) for side in sides):
        return condition
    monomials = [monomial for side in sides if isinstance(side, Dim) for monomial, _ in side.terms]
    for name in sorted(symbols_of(condition.left) & symbols_of(condition.right)):
        if all(name in monomial for monomial in monomials):
            left, right = (floor_div(side, symbol(name)) for side in sides)
            return _cancelled(Condition(condition.relation, left, right))
    return condition


def _is_trivial(condition: Condition) -> bool:
    if condition.relation == "==":
        return condition.left == condition.right
    return not isinstance(condition.left, Dim) and not isinstance(condition.right, Dim) and condition.holds({})


def _holds(condition: Condition, values: Mapping[str, Size]) -> bool:
    left, right = evaluate(condition.left, values), evaluate(condition.right, values)
    return (
        isinstance(left, int)
        and isinstance(right, int)
        and (left == right if condition.relation == "==" else left <= right)
    )


def _assignments(free: list[str], largest: Mapping[str, int], due: list[list[Condition]]) -> Iterator[dict[str, int]]:
    """Yield the numbers of free symbols that meet the conditions on them, unused and small numbers first."""
    budget = [_MAX_TRIALS * 20]

    def extend(values: dict[str, int]) -> Iterator[dict[str, int]]:
        if len(values) == len(free):
            yield values
            return
        name = free[len(values)]
        used = set(values.values())
        for number in sorted(range(2, min(largest[name], _MAX_SIZE) + 1), key=lambda n: (n in used, n)):
            budget[0] -= 1
            if budget[0] < 0:
                return
            extended = {**values, name: number}
            if all(_holds(condition, dict(extended)) for condition in due[len(extended)]):
                yield from extend(extended)

    yield from extend({})
