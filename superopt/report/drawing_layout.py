"""Layered layout of a small graph: positions of boxes and paths of edges, in pixels. Geometry only.

The steps are those of Sugiyama, Tagawa and Toda (1981): layers by longest path, one dummy for each layer that an edge
crosses, few crossings by barycentres, and coordinates by least squares that keep order and distance. Input edges end
at ports, in the order of the operands, so that `Sub(x, y)` is not read as `Sub(y, x)`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import networkx as nx

__all__ = ["Box", "Edge", "Layout", "lay_out"]

_GAP_X, _GAP_Y, _MARGIN = 18.0, 30.0, 6.0
_SWEEPS = 12


@dataclass
class Box:
    """A node with its size and, after layout, its centre. A box without a key is a dummy of a long edge."""

    key: Hashable
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    layer: int = 0


@dataclass
class Edge:
    """An edge from a port at the bottom of `source` to a port at the top of `target`; ports are offsets from the
    centre.

    After layout, `path` has the points of the edge: its start, the top and bottom of each layer that it crosses, its
    end.
    """

    source: Box
    target: Box
    leave: float = 0.0
    enter: float = 0.0
    path: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    """The size of the drawing, margins included."""

    width: float
    height: float


def lay_out(boxes: Sequence[Box], edges: Sequence[Edge]) -> Layout:
    """Place `boxes` (inputs before users) and route `edges`, in place."""
    _assign_layers(boxes, edges)
    layers: list[list[Box]] = [[] for _ in range(1 + max(box.layer for box in boxes))]
    for box in boxes:
        layers[box.layer].append(box)
    pieces, chains = _split_long_edges(edges, layers)
    layers = _few_crossings(layers, pieces)
    _place_across(layers, pieces)
    height = _place_down(layers)
    left = min(box.x - box.width / 2 for box in boxes)
    left = min([left, *(dummy.x for chain in chains for dummy in chain)]) - _MARGIN
    for layer in layers:
        for box in layer:
            box.x -= left
    right = max(box.x + box.width / 2 for layer in layers for box in layer)
    for edge, chain in zip(edges, chains, strict=True):
        edge.path = _route(edge, chain)
    return Layout(right + _MARGIN, height)


def _assign_layers(boxes: Sequence[Box], edges: Sequence[Edge]) -> None:
    """Assign layers by longest path to an output: each box as far down as its users allow."""
    upward: nx.DiGraph[int] = nx.DiGraph((id(edge.target), id(edge.source)) for edge in edges)
    upward.add_nodes_from(map(id, boxes))
    generations = [set(generation) for generation in nx.topological_generations(upward)]
    layer = {key: at for at, generation in enumerate(reversed(generations)) for key in generation}
    for box in boxes:
        box.layer = layer[id(box)]


def _split_long_edges(edges: Sequence[Edge], layers: list[list[Box]]) -> tuple[list[Edge], list[list[Box]]]:
    """Split edges at each layer that they cross; return the pieces, and the dummies of each given edge."""
    pieces: list[Edge] = []
    chains: list[list[Box]] = []
    for edge in edges:
        chain = [Box(None, 0.0, 0.0, layer=at) for at in range(edge.source.layer + 1, edge.target.layer)]
        for dummy in chain:
            layers[dummy.layer].append(dummy)
        stops = [edge.source, *chain, edge.target]
        for a, b in itertools.pairwise(stops):
            pieces.append(Edge(a, b, edge.leave if a is edge.source else 0.0, edge.enter if b is edge.target else 0.0))
        chains.append(chain)
    return pieces, chains


def _few_crossings(layers: list[list[Box]], pieces: Sequence[Edge]) -> list[list[Box]]:
    """Return the order within layers with the fewest crossings that barycentre sweeps find."""
    best, least = [list(layer) for layer in layers], _crossings(layers, pieces)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 1
        for layer in layers if down else reversed(layers):
            rank = {id(box): place for row in layers for place, box in enumerate(row)}
            wanted = {}
            for place, box in enumerate(layer):
                if down:
                    near = [rank[id(p.source)] + p.leave / 1e3 for p in pieces if p.target is box]
                else:
                    near = [rank[id(p.target)] + p.enter / 1e3 for p in pieces if p.source is box]
                wanted[id(box)] = sum(near) / len(near) if near else float(place)
            layer.sort(key=lambda box: wanted[id(box)])
        crossings = _crossings(layers, pieces)
        if crossings < least:
            best, least = [list(layer) for layer in layers], crossings
    return best


def _crossings(layers: list[list[Box]], pieces: Sequence[Edge]) -> int:
    rank = {id(box): place for row in layers for place, box in enumerate(row)}
    ends = [(p.source.layer, (rank[id(p.source)], p.leave), (rank[id(p.target)], p.enter)) for p in pieces]
    return sum(
        a[0] == b[0] and ((a[1] < b[1] and a[2] > b[2]) or (a[1] > b[1] and a[2] < b[2]))
        for i, a in enumerate(ends)
        for b in ends[:i]
    )


def _place_across(layers: list[list[Box]], pieces: Sequence[Edge]) -> None:
    for layer in layers:
        at = 0.0
        for box in layer:
            box.x = at + box.width / 2
            at += box.width + _GAP_X
    before: list[float] = []
    for sweep in range(4 * _SWEEPS):
        if sweep % 2 == 0:
            now = [box.x for layer in layers for box in layer]
            if now == before:  # one sweep up and one down have moved nothing
                return
            before = now
        for layer in layers if sweep % 2 else reversed(layers):
            wanted = []
            for box in layer:
                above = [p.source.x + p.leave - p.enter for p in pieces if p.target is box]
                below = [p.target.x + p.enter - p.leave for p in pieces if p.source is box]
                near = (above if sweep % 2 else below) or above or below or [box.x]
                wanted.append(sum(near) / len(near))
            _nearest_in_order(layer, wanted)


def _nearest_in_order(layer: list[Box], wanted: list[float]) -> None:
    """Move boxes nearest to `wanted` (least squares) with order and gaps kept: pool adjacent violators."""
    shift, shifts = 0.0, []
    for place, box in enumerate(layer):
        if place:
            shift += (layer[place - 1].width + box.width) / 2 + _GAP_X
        shifts.append(shift)
    pools: list[tuple[float, int]] = []  # mean, count
    for want, offset in zip(wanted, shifts, strict=True):
        mean, count = want - offset, 1
        while pools and pools[-1][0] > mean:
            before, many = pools.pop()
            mean, count = (mean * count + before * many) / (count + many), count + many
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    for box, mean, offset in zip(layer, means, shifts, strict=True):
        box.x = mean + offset


def _place_down(layers: list[list[Box]]) -> float:
    top = _MARGIN
    for layer in layers:
        height = max(box.height for box in layer)
        for box in layer:
            box.y = top + height / 2
            if not box.width:  # a dummy is as high as its layer: the edge passes beside the boxes
                box.height = height
        top += height + _GAP_Y
    return top - _GAP_Y + _MARGIN


def _route(edge: Edge, chain: Sequence[Box]) -> list[tuple[float, float]]:
    path = [(edge.source.x + edge.leave, edge.source.y + edge.source.height / 2)]
    for dummy in chain:
        path += [(dummy.x, dummy.y - dummy.height / 2), (dummy.x, dummy.y + dummy.height / 2)]
    return [*path, (edge.target.x + edge.enter, edge.target.y - edge.target.height / 2)]
