"""The windows of a model: connected convex sets of operators, grown from each operator by a beam search.

A set is convex if no path between two of its operators leaves it. Each set is grown from its first operator (in
topological order) by adding neighbours, so no set is met from two sides. Of the sets of each size that grow from one
operator, a limited number is kept: half of it for the highest costs, half for the fewest values that cross the
boundary (a window with few outputs can be replaced as a whole).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from superopt.harvest.limits import WindowLimits
from superopt.harvest.model_graph import ModelGraph, bits
from superopt.ir.term import Term, output_index

__all__ = ["Cut", "Occurrences", "cut_windows"]

_MAX_SETS = 60_000  # of one model, about; large models get a narrower beam
_MAX_BEAM = 12


@dataclass
class Occurrences:
    """Equal windows of one model: the operators of the first, their number, and all operators that they cover."""

    first: int
    count: int = 0
    covered: int = 0


@dataclass
class Cut:
    """The windows of a model by structure, and the numbers of windows that were left out."""

    windows: dict[tuple[object, ...], Occurrences] = field(default_factory=dict)
    over_limits: int = 0  # more inputs or outputs than the limits allow
    beyond_beam: int = 0  # not kept by the beam search


@dataclass(frozen=True)
class _Set:
    """A convex set of operators, the union of their neighbours, ancestors and descendants, and its cost in seconds."""

    members: int
    near: int
    before: int
    after: int
    cost: float


def cut_windows(graph: ModelGraph, limits: WindowLimits) -> Cut:
    """Return the windows of a model. Deterministic."""
    found = Cut()
    beam = max(1, min(_MAX_BEAM, _MAX_SETS // max(1, len(graph.operators) * limits.operators)))
    for first in bits(graph.usable):
        allowed = graph.usable >> first << first
        level = [_Set(1 << first, graph.near[first], graph.before[first], graph.after[first], graph.costs[first])]
        waiting: dict[int, dict[int, _Set]] = {}
        for size in range(1, limits.operators + 1):
            ranked = sorted(((_boundary(graph, s.members), s) for s in level), key=lambda pair: -pair[1].cost)
            for (inputs, outputs), window in ranked:
                if len(inputs) > limits.inputs or len(outputs) > limits.outputs:
                    found.over_limits += 1
                    continue
                key = _structure(graph, window.members, outputs)
                entry = found.windows.setdefault(key, Occurrences(window.members))
                entry.count += 1
                entry.covered |= window.members
            for window in level:
                for grown in _grown(graph, window, allowed, limits.operators):
                    waiting.setdefault(grown.members.bit_count(), {})[grown.members] = grown
            candidates = list(waiting.pop(size + 1, {}).values())
            level = _kept(graph, candidates, beam)
            found.beyond_beam += len(candidates) - len(level)
    return found


def _grown(graph: ModelGraph, window: _Set, allowed: int, most: int) -> Iterator[_Set]:
    """Yield the convex sets of at most `most` operators that contain the window and one neighbour."""
    for k in bits(window.near & allowed & ~window.members):
        members = window.members | 1 << k
        before, after = window.before | graph.before[k], window.after | graph.after[k]
        between = before & after & ~members  # operators on paths between members
        if between & ~allowed or (members | between).bit_count() > most:
            continue
        near, cost = window.near | graph.near[k], window.cost + graph.costs[k]
        for j in bits(between):
            near |= graph.near[j]
            cost += graph.costs[j]
        yield _Set(members | between, near, before, after, cost)


def _kept(graph: ModelGraph, candidates: list[_Set], beam: int) -> list[_Set]:
    if len(candidates) <= beam:
        return candidates
    by_cost = sorted(candidates, key=lambda s: (-s.cost, s.members))
    kept = dict.fromkeys(by_cost[: (beam + 1) // 2])
    if len(kept) == beam:
        return list(kept)
    by_boundary = sorted(by_cost, key=lambda s: sum(map(len, _boundary(graph, s.members))))
    for window in by_boundary:
        if len(kept) == beam:
            break
        kept.setdefault(window)
    return list(kept)


def _boundary(graph: ModelGraph, members: int) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Return the run-time values that a set reads from outside, and those that it computes for outside, in order."""
    inputs: dict[Term, None] = {}
    outputs: list[Term] = []
    for k in bits(members):
        for maker, value in graph.operands[k]:
            if value is not None and not value.is_constant and (maker < 0 or not members >> maker & 1):
                inputs.setdefault(value)
        outputs.extend(v for v in graph.values[k] if v in graph.outputs or graph.readers.get(v, 0) & ~members)
    return tuple(inputs), tuple(outputs)


def _structure(graph: ModelGraph, members: int, outputs: tuple[Term, ...]) -> tuple[object, ...]:
    """Return a key that is equal for equal windows: forms, wiring and outputs. Some equal windows have several keys."""
    local: dict[int, int] = {}
    leaves: dict[Term, int] = {}
    key: list[object] = []
    live = set(outputs)
    for k in bits(members):
        wiring: list[object] = []
        for maker, value in graph.operands[k]:
            if value is None:
                wiring.append(None)
            elif maker in local:
                wiring.append((local[maker], output_index(value)))
            else:
                wiring.append(leaves.setdefault(value, len(leaves)))
        key.append((graph.forms[k], tuple(wiring), tuple(output_index(v) for v in graph.values[k] if v in live)))
        local[k] = len(local)
    return tuple(key)
