"""Compound matches: one kind of rewrite at all users of a value, as one rewrite.

A value that several operators read has to be computed until the last of them is rewritten. Three parts of one product,
computed apart, gain nothing one by one: each is computed in addition to the whole product, which is only removed with
the third. Such rewrites, each of which alone makes the graph more expensive, are offered together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from superopt.ir.term import Term
from superopt.search.cost.graph_cost import Price
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.occurrence import Match

__all__ = ["CompoundMatch", "compound_matches"]

_MAX_PARTS = 8


@dataclass(frozen=True, eq=False)
class CompoundMatch(Match):
    """Matches of one root each that are applied one after the other. None touches what another one creates."""

    parts: tuple[Match, ...]

    @staticmethod
    def of(parts: Sequence[Match]) -> CompoundMatch:
        """Combine matches of one root each."""
        return CompoundMatch(
            parts[0].compiled,
            parts[0].bindings,
            tuple(part.roots[0] for part in parts),
            tuple(part.results[0] for part in parts),
            frozenset().union(*(part.covered for part in parts)),
            frozenset().union(*(part.touched for part in parts)),
            tuple(parts),
        )

    @cached_property
    def created(self) -> frozenset[Term]:
        """The run-time terms that the parts create."""
        return frozenset().union(*(part.created for part in self.parts))

    @property
    def statistics_key(self) -> str:
        """A key of its own: the outcomes of one rewrite say little about the same rewrite at all users."""
        return f"{len(self.parts)} x {super().statistics_key}"


def compound_matches(
    single: Iterable[tuple[Price, Match]], now: Price, index: GraphIndex, price: Callable[[Match], Price]
) -> Iterator[tuple[Price, Match]]:
    """Yield compound matches with the price of the graph after each.

    `single` are matches with their prices, `now` is the price of the graph. A compound match covers all users of a
    value with matches that alone are no gain (a gain is taken anyway), and is cheaper than any of them.
    """
    sets: dict[tuple[Term, object], dict[Term, tuple[Price, Match]]] = {}
    for single_price, found in single:
        if len(found.roots) == 1 and single_price.time_ps >= now.time_ps:
            for shared in found.covered:
                if shared is not found.roots[0] and len(index.users.get(shared, ())) > 1:
                    members = sets.setdefault((shared, found.compiled.operators), {})
                    root = found.roots[0]
                    if root not in members or single_price < members[root][0]:
                        members[root] = single_price, found
    seen: set[tuple[Term, ...]] = set()
    for (shared, _), members in sets.items():
        parts = [found for _, found in members.values()]
        if not 1 < len(parts) <= _MAX_PARTS or shared in index.outputs:
            continue
        if not frozenset(index.users[shared]) <= frozenset().union(*(part.covered for part in parts)):
            continue
        parts.sort(key=lambda part: index.position[part.roots[0]])
        compound = CompoundMatch.of(parts)
        if compound.results in seen or not _are_independent(parts, index):
            continue
        seen.add(compound.results)
        compound_price = price(compound)
        if compound_price.time_ps < min(single_price.time_ps for single_price, _ in members.values()):
            yield compound_price, compound


def _are_independent(parts: Sequence[Match], index: GraphIndex) -> bool:
    """Return True if no part reads a value that is computed from the root of a part."""
    return not any(
        index.depends(bound, other.roots[0])
        for part in parts
        for bound in part.bindings.terms.values()
        if not bound.is_constant
        for other in parts
    )
