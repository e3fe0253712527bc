"""Sites of one law all over a model, as regions of their own.

What shares a weight (the input projections of all time steps) or an input (experts) may be far apart, where no region
between two cuts holds it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from superopt.ir.term import Term, topological
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.region import Region, extract_region

__all__ = ["in_order", "site_regions"]

# Products alone: of what else is merged the runtime makes one loop, and Convs are timed with what surrounds them, as
# they lose their blocked layout at a Split.
_PRODUCTS = frozenset({"MatMul", "Gemm", "FusedMatMul"})
_CHAIN = 4  # how far up the only users of a site are looked at


def site_regions(outputs: Sequence[Term], matcher: Matcher, of_values: bool) -> Iterator[Region]:
    """A region for each set of sites that one law could merge; they overlap.

    `of_values`: sites that share a value of run time (the gates of a cell), else those that share weights alone (the
    time steps of a layer). Steps merge as soon as gates have, but gates of merged steps no longer meet.
    """
    view = GraphIndex(outputs)
    for match in matcher.sibling_matches(view):
        shared = frozenset.intersection(*(frozenset(term.inputs) for term in match.roots))
        if all(term.op in _PRODUCTS for term in match.covered) and of_values == any(map(_is_value, shared)):
            piece, alive = _chains(match.roots, view)
            region = extract_region(sorted({*match.covered, *piece}, key=view.position.__getitem__), alive)
            if region is not None:
                yield region


def _is_value(term: Term | None) -> bool:
    return term is not None and not term.weight_only


def _chains(roots: Sequence[Term], view: GraphIndex) -> tuple[list[Term], list[Term]]:
    """The only users of the roots, their only users and so on, as far as they need nothing that depends on another
    root, with the products that meet them there: what may be merged after the roots. And what is read further up."""
    piece: dict[Term, None] = {}
    alive: list[Term] = []
    for root in roots:
        value = root
        for _ in range(_CHAIN):
            users = view.users.get(value, [])
            if len(users) != 1 or users[0].type is None or value in view.outputs:
                break
            others = [i for i in users[0].inputs if i is not None and i is not value and not i.weight_only]
            if any(view.depends(i, other) for i in others for other in roots):
                break
            piece.update((i, None) for i in others if i.op in _PRODUCTS and len(view.users[i]) == 1)
            value = users[0]
            piece[value] = None
        alive.append(value)
    return list(piece), list(dict.fromkeys(alive))


def in_order(outputs: Sequence[Term], regions: Sequence[Region]) -> list[Region]:
    """Those regions, earlier ones first, that can be rewritten together, each after those that it depends on.

    None shares an operator with another, and none depends on what depends on it (each alone is no cycle, two may be).
    """
    taken: set[Term] = set()
    kept: list[Region] = []
    for region in regions:
        if taken.isdisjoint(region.operators):
            taken.update(region.operators)
            kept.append(region)
    while True:
        home: dict[Term, Region | Term] = {term: region for region in kept for term in region.operators}
        graph: dict[Region | Term, dict[Region | Term, None]] = {}  # no sets: the order must be the same every time
        for term in topological(outputs):
            here = home.get(term, term)
            before = [home.get(i, i) for i in term.inputs if i is not None and not i.weight_only]
            graph.setdefault(here, {}).update((node, None) for node in before if node is not here)
        try:
            return [node for node in TopologicalSorter(graph).static_order() if isinstance(node, Region)]
        except CycleError as error:
            last = max(kept.index(node) for node in error.args[1] if isinstance(node, Region))
            del kept[last]
