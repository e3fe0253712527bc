"""Selections all over the model: makes regions in which less is computed if an operator selects earlier.

A classifier reads one row of its last layer, so most of that layer need not be computed. A *selection* is an operator
that only moves elements, and returns fewer of them than it reads (Gather, Slice, the only part of a Split that is
read). It can be moved below the operator that computes what it reads, if nothing else reads that.

On the way, graphs are more expensive: the runtime does not fuse an activation with a selection between its operators,
and what two operators read is computed in full until both of them select from it. So a region has all that is computed
for one selection only, and the selection is moved as far as rules move it. The cheapest graph on the way counts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

from superopt.ir.dim import evaluate, symbols_of
from superopt.ir.term import Term, node_of
from superopt.ir.types import TensorType
from superopt.properties import rearranges
from superopt.search.match.graph_index import GraphIndex
from superopt.search.region import Region, extract_region

__all__ = ["keeps_rank", "movable_selections", "selected_operator", "selection_regions"]

_MAX_OPERATORS = 100  # in a region: an attention with its normalizations in parts has about 70
_ANY_SIZE = 97  # in place of a size that is not known


def selection_regions(outputs: Sequence[Term]) -> Iterator[Region]:
    """Yield a region for each movable selection of a graph, the last ones first. Regions may overlap."""
    index = GraphIndex(outputs)
    for selection in movable_selections(index):
        region = extract_region(_computed_for(selection, index), (selection,))
        if region is not None:
            yield region


def movable_selections(index: GraphIndex) -> list[Term]:
    """Return the selections of values that an operator computes for nothing else, the last ones first."""
    return [term for term in reversed(index.computed) if selected_operator(term, index) is not None]


def selected_operator(term: Term, index: GraphIndex) -> Term | None:
    """Return the operator that computes what the selection `term` reads, and nothing else reads; else None."""
    node = node_of(term)
    operands = [value for value in node.inputs if value is not None and not value.is_constant]
    if len(operands) != 1 or len(term.types) > 1 or not rearranges(node.op):
        return None
    if term is not node and index.users[node] != [term]:
        return None
    value, read = node_of(operands[0]), operands[0]
    is_read_once = index.users.get(read) == [node] and index.users.get(value, [read]) in ([read], [node])
    if value.op == "Var" or not is_read_once or read in index.outputs or not _is_smaller(term.type, read.type):
        return None
    return value


def keeps_rank(selection: Term) -> bool:
    """Return True if a selection has as many axes as what it selects from."""
    operand = node_of(selection).inputs[0]
    if operand is None or operand.type is None or selection.type is None:
        return False
    return selection.type.rank == operand.type.rank


def _is_smaller(a: TensorType | None, b: TensorType | None) -> bool:
    """Return True if a tensor of type `a` has fewer elements than one of type `b`, as far as sizes tell."""
    counts = []
    for tensor_type in (a, b):
        if tensor_type is None or tensor_type.shape is None:
            return False
        sizes = [evaluate(size, dict.fromkeys(symbols_of(size), _ANY_SIZE)) for size in tensor_type.shape]
        counts.append(math.prod(size for size in sizes if isinstance(size, int)))
    return counts[0] < counts[1]


def _computed_for(selection: Term, index: GraphIndex) -> list[Term]:
    """Return operators that are computed for `selection` only, and those of the selection, in topological order.

    These are the last such operators; no path leaves them and comes back.
    """
    piece = {node_of(selection)}
    inside = {selection, *piece}  # operators and their outputs
    waiting: list[tuple[int, Term]] = []

    def add_inputs(node: Term) -> None:
        for value in node.inputs:
            if value is not None and not value.is_constant and value.op != "Var":
                heapq.heappush(waiting, (-index.position[node_of(value)], node_of(value)))

    add_inputs(node_of(selection))
    while waiting and len(piece) < _MAX_OPERATORS:
        node = heapq.heappop(waiting)[1]  # after all of its users that are in the piece
        if node in inside or node in index.outputs:
            continue
        users = [user for user in index.users[node] if user.op != "Out"]
        outs = [user for user in index.users[node] if user.op == "Out"]
        users += [user for out in outs for user in index.users.get(out, ())]
        if inside.issuperset(users) and not any(out in index.outputs for out in outs):
            piece.add(node)
            inside.update((node, *outs))
            add_inputs(node)
    return sorted(piece, key=index.position.__getitem__)
