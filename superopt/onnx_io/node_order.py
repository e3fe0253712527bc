"""The order of nodes in a written file. It affects speed: a value computed long before its use leaves the cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import networkx as nx

from superopt.ir.term import CLOSED_FORM, Term, node_of, topological

__all__ = ["LEAVES", "in_order"]

LEAVES = CLOSED_FORM | {"Var", "Const", "ai.onnx::SparseInitializer"}


def in_order(outputs: Iterable[Term], position: Mapping[Term, int]) -> list[Term]:
    """Return the nodes below `outputs`, inputs first.

    Nodes with a `position` are in that order as far as possible; every other node is just before its first reader.
    """
    nodes = [term for term in topological(tuple(outputs)) if term.op not in LEAVES and term.op != "Out"]
    graph: nx.DiGraph[Term] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    for node in nodes:
        sources = (node_of(i) for i in node.inputs if i is not None)
        graph.add_edges_from((source, node) for source in sources if source in graph)
    place: dict[Term, tuple[int, int, int]] = {}
    last = len(position) + max(position.values(), default=0)
    for index, node in reversed(list(enumerate(nodes))):
        if node in position:
            place[node] = (position[node], 1, index)
        else:
            place[node] = (min((place[user][0] for user in graph.successors(node)), default=last), 0, index)
    # networkx takes 13 ms for the 710 nodes of Swin-T, a hand-written heap 5 ms; writing the file takes 0.8 s.
    return list(nx.lexicographical_topological_sort(graph, key=place.__getitem__))
