"""Price of folding: seconds for computing the constants of a graph from the model's weights.

The optimizer pays this price once, and only for a graph that it writes. A product of large weights may take longer than
a whole search: folding two matrices of 4096 x 4096 into one takes 5 seconds.
"""

from __future__ import annotations

from collections.abc import Iterable

from superopt.ir.term import Term, topological
from superopt.search.cost.work import elements, work

__all__ = ["folding_seconds"]

# Constants are computed in float64 (`superopt.evaluate`). One core of a CPU of 2020 does 27 to 45 billion operations a
# second in matrix products of NumPy, and reads or writes 2 GB a second elsewhere, where it makes a pass for each step.
_OPERATIONS_PER_SECOND, _BYTES_PER_SECOND = 3e10, 2e9
_BYTES_OF_ELEMENT = 8


def folding_seconds(outputs: Iterable[Term], known: Iterable[Term] = ()) -> float:
    """Return the seconds for computing all constants below `outputs`, except those in `known` and what only they need.

    The price depends on the graph alone, not on the machine, so that a repeated run takes the same decisions.
    """
    cut = set(known)
    return sum(map(_seconds, _computed_constants(outputs, cut)))


def _computed_constants(outputs: Iterable[Term], cut: set[Term]) -> list[Term]:
    """Return the constants with operands below `outputs`, without those in `cut` and those below these."""
    found: dict[Term, None] = {}
    stack = [term for term in topological(outputs) if not term.is_constant]
    tops = [used for term in stack for used in term.inputs if used is not None and used.is_constant]
    tops += [output for output in outputs if output.is_constant]
    while tops:
        term = tops.pop()
        if term not in found and term not in cut and term.inputs:
            found[term] = None
            tops += [used for used in term.inputs if used is not None]
    return list(found)


def _seconds(term: Term) -> float:
    moved = elements(term) + sum(elements(used) for used in term.inputs if used is not None)
    return work(term).dense / _OPERATIONS_PER_SECOND + _BYTES_OF_ELEMENT * moved / _BYTES_PER_SECOND
