"""The order in which nodes are written. It is a cost: what is computed long before its use leaves the cache."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from superopt.ir.term import CLOSED_FORM, Term, topological

__all__ = ["LEAVES", "in_order"]

LEAVES = CLOSED_FORM | {"Var", "Const", "ai.onnx::SparseInitializer"}


def in_order(outputs: Iterable[Term], position: Mapping[Term, int]) -> list[Term]:
    """The nodes below `outputs`, inputs first: nodes with a `position` in its order as far as that goes, and every
    other node just before the first that reads from it."""
    outputs = tuple(outputs)
    nodes = [term for term in topological(outputs) if term.op not in LEAVES and term.op != "Out"]
    sources: dict[Term, set[Term]] = {}
    users: dict[Term, list[Term]] = {node: [] for node in nodes}
    for node in nodes:
        sources[node] = {_node(i) for i in node.inputs if i is not None} & users.keys()
        for source in sources[node]:
            users[source].append(node)
    place: dict[Term, tuple[int, int, int]] = {}
    last = len(position) + max(position.values(), default=0)
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        if node in position:
            place[node] = (position[node], 1, index)
        else:
            place[node] = (min((place[user][0] for user in users[node]), default=last), 0, index)
    waiting = {node: len(sources[node]) for node in nodes}
    ready = [(place[node], index) for index, node in enumerate(nodes) if not waiting[node]]
    heapq.heapify(ready)
    at = {node: index for index, node in enumerate(nodes)}
    order: list[Term] = []
    while ready:
        node = nodes[heapq.heappop(ready)[1]]
        order.append(node)
        for user in users[node]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (place[user], at[user]))
    return order


def _node(term: Term) -> Term:
    """The term whose node computes `term`."""
    if term.op != "Out":
        return term
    assert term.inputs[0] is not None
    return term.inputs[0]
