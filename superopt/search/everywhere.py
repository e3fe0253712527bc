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
            piece, alive = _with_users(match.roots, view)
            region = region_of([*sorted(match.covered, key=view.terms.__getitem__), *piece], alive)
            if region is not None:
                yield region


def _with_users(roots: Sequence[Term], view: View) -> tuple[list[Term], list[Term]]:
    """The only users of the roots, as far as they need nothing that depends on another root: what the runtime fuses
    into the sites, and what may be merged after them. And the values that are read further up."""
    users: dict[Term, None] = {}
    alive: list[Term] = []
    for root in roots:
        above = view.users.get(root, [])
        others = [i for i in above[0].inputs if i is not None and i is not root] if len(above) == 1 else []
        free = not any(view.depends(i, other) for i in others if not i.weight_only for other in roots)
        if len(above) == 1 and free and above[0].type is not None and root not in view.outputs:
            users[above[0]] = None
            alive.append(above[0])
        else:
            alive.append(root)
    return sorted(users, key=view.terms.__getitem__), list(dict.fromkeys(alive))


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
