"""Test whether a proof's guards are the weakest, at sizes where one guard fails and all other conditions hold.

The typing of the right side needs the guard. So where the guard fails, the sides should not be both typed and equal.
The answer rests on examples, and no rewrite depends on it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from superopt.ir.dim import Dim, symbols_of
from superopt.ir.infer import IllTyped
from superopt.ir.rule import Condition
from superopt.ir.term import Term, topological
from superopt.ops.algebra import Guard, at_least, equal
from verify.diagnose.counterexample import differ
from verify.prove.facts import Facts
from verify.verdict import Proved

__all__ = ["weakest"]

Terms = tuple[Term, ...]
_MOST = 6  # the largest size of an example


def _wish(name: str) -> tuple[int, ...]:
    """Return the values to try for a symbol, in order: the answer must not depend on the model that Z3 finds first."""
    return (2, 3, 1, 4, 5, 6) if ".shape" in name else (1, 0, 2, 3, 4, 5, 6)


def weakest(left: Terms, right: Terms, proved: Proved) -> bool | None:
    """Return True if the sides differ at every example where one guard fails.

    False: the sides agree at one example, so a weaker guard would do. None: no example was found for some guard.
    """
    found = {agrees for guard in proved.guards for agrees in [_needless(left, right, proved, guard)]}
    if True in found:
        return False
    return None if None in found else True


def _needless(left: Terms, right: Terms, proved: Proved, guard: Condition) -> bool | None:
    """Return True if the sides agree at some sizes where only `guard` fails; None if no such sizes are found."""
    sizes = {s for t in topological(left) if t.op == "Var" and t.type and t.type.shape for s in t.type.shape}
    base = [at_least(size, 1) for size in sorted(sizes, key=str)]
    base += [Guard(c.relation, c.right - c.left) for c in proved.conditions if c != guard]
    answers: list[bool] = []
    for case in _failing(guard):
        point = Facts([*base, *case]).model(_MOST, 1, _wish)
        if point is not None:
            answers.append(_agree(left, right, point))
    return any(answers) if answers else None


def _failing(guard: Condition) -> Iterator[list[Guard]]:
    """Yield guards under which `guard` fails: its negations, alone and with one size equal to 1 (which broadcasts)."""
    value = guard.right - guard.left
    contraries = [Guard("<=", -value - 1)] + ([Guard("<=", value - 1)] if guard.relation == "==" else [])
    ones = [equal(Dim((((name,), 1),)), 1) for name in sorted(symbols_of(value)) if ".shape" in name]
    for contrary in contraries:
        yield [contrary]
        yield from ([contrary, one] for one in ones)


def _agree(left: Terms, right: Terms, point: dict[str, int]) -> bool:
    rng = random.Random(0)
    try:
        return all(differ(left, right, point, style, rng) is None for style in (0, 1))
    except IllTyped:
        return False
