"""Moves that pay only together: one kind of move at all users of a value.

What several operators read stays where it is until the last of them has moved. Three parts of one product, taken apart,
are worth nothing one by one: each is computed beside the whole, which goes with the third. Such moves, each in itself a
step up, are offered as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from superopt.ir.term import Term
from superopt.search.cost.graph_cost import Price
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.occurrence import Match

__all__ = ["Joint", "joint"]

_MOST = 8  # moves in one


@dataclass(frozen=True, eq=False)
class Joint(Match):
    """Moves of one root each, none of which touches what another one makes, made one after the other."""

    parts: tuple[Match, ...]

    @staticmethod
    def of(parts: Sequence[Match]) -> Joint:
        """The moves as one."""
        return Joint(
            parts[0].compiled,
            parts[0].bindings,
            tuple(part.roots[0] for part in parts),
            tuple(part.results[0] for part in parts),
            frozenset().union(*(part.covered for part in parts)),
            frozenset().union(*(part.touched for part in parts)),
            tuple(parts),
        )

    @cached_property
    def made(self) -> frozenset[Term]:
        """What any of them makes."""
        return frozenset().union(*(part.created for part in self.parts))

    @property
    def statistics_key(self) -> str:
        """A rule at one place says little of the rule at all of them."""
        return f"{len(self.parts)} x {super().statistics_key}"


def joint(
    alone: Iterable[tuple[Price, Match]], now: Price, view: GraphIndex, price: Callable[[Match], Price]
) -> Iterator[tuple[Price, Match]]:
    """Sets of moves of one kind at all users of a value, and what they lead to, where that is less than what any of
    them leads to and each by itself is no gain (else it is made anyway)."""
    sets: dict[tuple[Term, object], dict[Term, tuple[Price, Match]]] = {}
    for alone_price, found in alone:
        if len(found.roots) == 1 and alone_price.time_ps >= now.time_ps:
            for shared in found.covered:
                if shared is not found.roots[0] and len(view.users.get(shared, ())) > 1:
                    members = sets.setdefault((shared, found.compiled.operators), {})
                    root = found.roots[0]
                    if root not in members or alone_price < members[root][0]:
                        members[root] = alone_price, found
    seen: set[tuple[Term, ...]] = set()
    for (shared, _), members in sets.items():
        parts = [found for _, found in members.values()]
        if not 1 < len(parts) <= _MOST or shared in view.outputs:
            continue
        if not frozenset(view.users[shared]) <= frozenset().union(*(part.covered for part in parts)):
            continue
        parts.sort(key=lambda part: view.position[part.roots[0]])
        whole = Joint.of(parts)
        if whole.results in seen or not _independent(parts, view):
            continue
        seen.add(whole.results)
        together = price(whole)
        if together.time_ps < min(alone_price.time_ps for alone_price, _ in members.values()):
            yield together, whole


def _independent(parts: Sequence[Match], view: GraphIndex) -> bool:
    """Whether none reads what is computed from the root of another one."""
    return not any(
        view.depends(bound, other.roots[0])
        for part in parts
        for bound in part.bindings.terms.values()
        if not bound.weight_only
        for other in parts
    )
