"""Sets of sibling operators that a variadic rule may merge: they share operands and do not depend on one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from superopt.ir.term import Term
from superopt.search.match.graph_index import GraphIndex

__all__ = ["sibling_sets"]

_MAX_SIBLINGS = 32  # in one match: the time of a proof grows with a power of their number
_MAX_OPEN_SETS = 64  # of independent siblings, to which a term is added
_MAX_CONTEXT = 4  # operators along a value's only users


def sibling_sets(siblings: Sequence[Term], index: GraphIndex) -> Iterator[tuple[Term, ...]]:
    """Yield sets of siblings to merge.

    Each set of independent siblings is yielded, and then its subsets whose values pass through the same operators: for
    example gates that become operands of one Add.
    """
    seen: set[tuple[Term, ...]] = set()
    for independent in _independent_sets(siblings, index):
        by_context: dict[tuple[object, ...], list[Term]] = {}
        for term in independent:
            context = _context(term, index)
            for length in range(len(context), 0, -1):
                by_context.setdefault(context[:length], []).append(term)
        for some in (independent, *by_context.values()):
            for start in range(0, len(some), _MAX_SIBLINGS):
                chosen = tuple(some[start : start + _MAX_SIBLINGS])
                if len(chosen) > 1 and chosen not in seen:
                    seen.add(chosen)
                    yield chosen


def _independent_sets(siblings: Sequence[Term], index: GraphIndex) -> list[list[Term]]:
    """Partition the siblings into sets without dependences, greedily (first fit in the graph's order).

    The sets are large, but not always the largest possible. Each term is only tried with the latest sets: in a long
    chain every term is a set of its own.
    """
    sets: list[list[Term]] = []
    masks: list[int] = []
    for term in sorted(siblings, key=index.position.__getitem__):
        for number in range(max(0, len(sets) - _MAX_OPEN_SETS), len(sets)):
            if not index.depends_on_any(term, masks[number]):
                sets[number].append(term)
                masks[number] |= index.bit(term)
                break
        else:
            sets.append([term])
            masks.append(index.bit(term))
    return sets


def _context(term: Term, index: GraphIndex) -> tuple[object, ...]:
    """Return the chain of single users of a value: each user's operator and the input position that it is read at."""
    found: list[object] = []
    for _ in range(_MAX_CONTEXT):
        users = index.users.get(term, [])
        if len(users) != 1 or users[0].op == "Out":
            break
        found.append((users[0].op, users[0].inputs.index(term)))
        term = users[0]
    return tuple(found)
