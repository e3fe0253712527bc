"""Regions: small graphs cut out of a model, over leaves that stand for any values and weights of their types.

Equal pieces of a model become equal terms, so each distinct region is searched once. No test for graph isomorphism is
needed, because terms are interned. A weight that is computed from other weights (a Transpose that an exporter left in
the file) is one leaf like any other weight. Only constants in closed form (zeros, ones) stay visible to the rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import networkx as nx

from superopt.ir.infer import OPERATORS, IllTyped, remake, replace
from superopt.ir.term import CLOSED_FORM, Term, node_of, topological
from superopt.search.match.graph_index import run_time_terms

__all__ = ["Region", "canonical", "extract_region", "operators_in_order"]


@dataclass(frozen=True, eq=False)
class Region:
    """A piece of a model as a graph of its own.

    `outputs` is the graph over leaves. `leaves` pairs each leaf with the model's term that it stands for. `originals`
    are the model's terms for `outputs`, `operators` the operators of the piece in the model. `seams` are the values
    inside (terms of `outputs`) at which an earlier pass has cut, and the operators next to them.
    """

    outputs: tuple[Term, ...]
    leaves: tuple[tuple[Term, Term], ...]
    originals: tuple[Term, ...]
    operators: tuple[Term, ...]
    seams: frozenset[Term] = frozenset()


def operators_in_order(outputs: Sequence[Term], position: Mapping[Term, int]) -> list[Term]:
    """Return the run-time operators below `outputs` in a topological order; ties are broken by `position`.

    An operator without a position (made by an earlier pass) comes just before its first user.
    """
    terms = [t for t in topological(outputs) if not t.is_constant and t.op != "Var"]
    rank: dict[Term, float] = {}
    for k, term in enumerate(reversed(terms)):
        own = position.get(term)
        if own is not None:
            rank[term] = own
        else:
            rank.setdefault(term, float(len(terms) - k) + 1e9)
        for used in term.inputs:
            # Users come first in reversed order, so the minimum over all users is complete when `used` is reached.
            if used is not None and used not in position:
                rank[used] = min(rank.get(used, float("inf")), rank[term] - 0.5)
    graph: nx.DiGraph[Term] = nx.DiGraph()
    graph.add_nodes_from(terms)
    graph.add_edges_from((used, term) for term in terms for used in term.inputs if used is not None and used in graph)
    number = {term: k for k, term in enumerate(terms)}

    def key(term: Term) -> tuple[float, int]:
        return -1.0 if term.op == "Out" else rank[term], number[term]  # an output comes right after its operator

    return [term for term in nx.lexicographical_topological_sort(graph, key) if term.op != "Out"]


def canonical(outputs: Sequence[Term]) -> tuple[Term, ...] | None:
    """Return the outputs of the whole graph as a region (see `extract_region`), or None if that fails."""
    region = extract_region(operators_in_order(outputs, {}), outputs)
    return None if region is None else region.outputs


def extract_region(
    piece: Sequence[Term], live: Sequence[Term], earlier_cuts: Collection[Term] = frozenset()
) -> Region | None:
    """Return the operators `piece` as a region with the outputs `live`.

    The seams of the region are at the values of `earlier_cuts` that the piece computes. Returns None if putting the
    model's terms back for the leaves does not give the model's own graph: types in the file may contradict one another.
    """
    inside = set(piece)
    closed: dict[Term, bool] = {}

    def has_closed_form(weight: Term) -> bool:
        for t in topological((weight,)):
            if t not in closed:
                closed[t] = t.op in CLOSED_FORM or (bool(t.inputs) and node_of(t).op in OPERATORS)
                closed[t] = closed[t] and all(i is None or closed[i] for i in t.inputs)
        return closed[weight]

    new: dict[Term, Term] = {}
    leaves: list[tuple[Term, Term]] = []
    values = weights = 0
    stack: list[Term] = list(reversed(live))
    while stack:
        term = stack[-1]
        if term in new:
            stack.pop()
            continue
        if term.is_constant:
            if term.op in CLOSED_FORM:
                new[term] = term
                continue
            if not has_closed_form(term):
                leaf = Term.of("Const", (), {"hash": f"weight:{weights}"}, (term.type,))
                weights += 1
                new[term] = leaf
                leaves.append((leaf, term))
                continue
        elif node_of(term) not in inside:
            leaf = Term.of("Var", (), {"name": f"x{values}"}, (term.type,))
            values += 1
            new[term] = leaf
            leaves.append((leaf, term))
            continue
        missing = [i for i in term.inputs if i is not None and i not in new]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        try:
            new[term] = remake(term, tuple(None if i is None else new[i] for i in term.inputs))
        except IllTyped:  # the model contradicts itself: leave this piece as it is
            return None
    outputs = tuple(new[value] for value in live)
    if not outputs or replace(outputs, dict(leaves)) != tuple(live):
        return None
    return Region(outputs, tuple(leaves), tuple(live), tuple(piece), _seams(new, inside, earlier_cuts))


def _seams(new: Mapping[Term, Term], inside: Collection[Term], earlier_cuts: Collection[Term]) -> frozenset[Term]:
    """Return the region's terms for values of `earlier_cuts`, with the operators that they read and that read them."""
    cut = {new[value] for value in new if value in earlier_cuts and node_of(value) in inside}
    users = {term for term in new.values() if not cut.isdisjoint(term.inputs)}
    near = {*cut, *users, *(i for term in cut for i in term.inputs)}
    return frozenset(run_time_terms([*cut, *users]) & near)
