"""Sites of one law all over a model, as regions of their own.

What shares a weight (the input projections of all time steps) or an input (experts) may be far apart, where no region
between two cuts holds it all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

from superopt.ir.term import Term, topological
from superopt.search.moves import Matcher
from superopt.search.regions import Region, region_of
from superopt.search.view import View

__all__ = ["in_order", "site_regions"]

# Products alone: of what else is merged the runtime makes one loop, and Convs are timed with what surrounds them, as
# they lose their blocked layout at a Split.
_PRODUCTS = frozenset({"MatMul", "Gemm", "FusedMatMul"})


def site_regions(outputs: Sequence[Term], matcher: Matcher) -> Iterator[Region]:
    """A region for each set of sites that one law could merge; they overlap."""
    view = View(outputs)
    for match in matcher.merges(view):
        if all(term.op in _PRODUCTS for term in match.covered):
            piece = sorted(match.covered, key=view.terms.__getitem__)
            region = region_of(piece, match.roots)
            if region is not None:
                yield region


def in_order(outputs: Sequence[Term], regions: Sequence[Region]) -> list[Region]:
    """Those regions, earlier ones first, that can be rewritten together, each after those that it depends on.

    None shares an output with another, and none depends on what depends on it (each alone is no cycle, two may be).
    """
    taken: set[Term] = set()
    kept: list[Region] = []
    for region in regions:
        if taken.isdisjoint(region.originals):
            taken.update(region.originals)
            kept.append(region)
    while True:
        home: dict[Term, Region | Term] = {term: region for region in kept for term in region.originals}
        graph: dict[Region | Term, dict[Region | Term, None]] = {}  # no sets: the order must be the same every time
        for term in topological(outputs):
            before = [home.get(i, i) for i in term.inputs if i is not None and not i.weight_only]
            graph.setdefault(home.get(term, term), {}).update(dict.fromkeys(before))
        try:
            return [node for node in TopologicalSorter(graph).static_order() if isinstance(node, Region)]
        except CycleError as error:
            last = max(kept.index(node) for node in error.args[1] if isinstance(node, Region))
            del kept[last]
