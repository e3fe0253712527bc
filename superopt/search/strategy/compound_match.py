"""Compound matches: the same kind of rewrite at all users of a value, combined into one rewrite.

A value that several operators read is computed until the last of these operators is rewritten. For example, let three
operators read three parts of one product. Computing a part by itself gains nothing as long as the whole product is
still computed for another part. Each rewrite alone makes the graph more expensive, so the three are offered as one.
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
    """Matches with one root each that are applied one after the other. No match touches terms that another creates."""

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
        """A key of its own, because outcomes of a single rewrite say little about the same rewrite at all users."""
        return f"{len(self.parts)} x {super().statistics_key}"


def compound_matches(
    single: Iterable[tuple[Price, Match]], now: Price, index: GraphIndex, price: Callable[[Match], Price]
) -> Iterator[tuple[Price, Match]]:
    """Yield compound matches with the price of the graph after each.

    `single` are matches with their prices, `now` is the price of the graph. A compound match combines matches at all
    users of a value that are no gain alone (a gain is taken anyway). The graph after it is cheaper than after any of
    these matches alone.
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
