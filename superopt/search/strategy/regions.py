"""Cutting a model into small regions that are searched one by one, each distinct one once.

The run-time operators are put into one order (the model's own where it has one), and that line is cut where
few values are live. A piece between two cuts is convex by construction. It becomes a region: a graph over
leaves that stand for whatever the values and weights there are, so that equal pieces are equal terms. A weight that is
computed from others (a Transpose that an exporter has left in the file) is one leaf like any other; only what is known
in closed form (zeros, ones) stays to be seen by the rules.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass

from superopt.ir.infer import OPERATORS, IllTyped, remake
from superopt.ir.term import CLOSED_FORM, Term, topological
from superopt.search.apply import fill
from superopt.search.cost.graph_cost import FUSED
from superopt.search.match.graph_index import MOVING, node_of, run_time_terms

__all__ = ["Region", "canonical", "cut", "operators_in_order", "region_of", "regions"]

# The size (run-time operators) at which regions are best to search, and the most. Later passes see more: what the
# first one has found made the graph smaller.
TARGET = 10
LATER_TARGET = 24
LARGEST = 40
# What lives longer than so many operators is an input to all of them, and no reason to cut here rather than there.
_LONG = 100
# What a cut costs: for each value live across it beyond the fewest nearby, before a fused operator, at an old cut.
_LIVE, _FUSED, _SHUNNED = 2.0, 0.5, 3.0


@dataclass(frozen=True, eq=False)
class Region:
    """A piece of a model: `outputs` over leaves, the model's term for each leaf and for each output, and its operators
    in the model. `seams` are values inside (as `outputs` has them) where an earlier pass has cut, and what is next to
    them."""

    outputs: tuple[Term, ...]
    leaves: tuple[tuple[Term, Term], ...]
    originals: tuple[Term, ...]
    operators: tuple[Term, ...]
    seams: frozenset[Term] = frozenset()


def operators_in_order(outputs: Sequence[Term], position: Mapping[Term, int]) -> list[Term]:
    """The run-time operators below `outputs`, inputs before users, by `position` where that leaves a choice.

    An operator without a position (made by an earlier pass) comes just before its first user.
    """
    terms = [t for t in topological(outputs) if not t.weight_only and t.op != "Var"]
    place: dict[Term, float] = {}
    for k, term in enumerate(reversed(terms)):
        own = position.get(term)
        if own is not None:
            place[term] = own
        else:
            place.setdefault(term, float(len(terms) - k) + 1e9)
        for used in term.inputs:
            # Reversed order is users first, so the minimum over all users is complete when `used` is reached.
            if used is not None and used not in position:
                place[used] = min(place.get(used, float("inf")), place[term] - 0.5)
    waiting: dict[Term, int] = {}
    users: dict[Term, list[Term]] = {}
    ready: list[tuple[float, int, Term]] = []
    for k, term in enumerate(terms):
        inputs = {i for i in term.inputs if i is not None and not i.weight_only and i.op != "Var"}
        waiting[term] = len(inputs)
        for used in inputs:
            users.setdefault(used, []).append(term)
        if not inputs:
            ready.append((place[term], k, term))
    number = {term: k for k, term in enumerate(terms)}
    heapq.heapify(ready)
    order: list[Term] = []
    while ready:
        _, _, term = heapq.heappop(ready)
        if term.op != "Out":
            order.append(term)
        for user in users.get(term, ()):
            waiting[user] -= 1
            if waiting[user] == 0:
                # An output costs nothing and belongs to its operator, so it comes at once.
                heapq.heappush(ready, (-1.0 if user.op == "Out" else place[user], number[user], user))
    return order


def _live(order: Sequence[Term], outputs: Sequence[Term]) -> tuple[list[int], dict[Term, int]]:
    """How many values are live before each operator (and at the end) and not for long, and where each is used last."""
    last: dict[Term, int] = {}
    for k, term in enumerate(order):
        for used in term.inputs:
            if used is not None and not used.weight_only and used.op != "Var":
                last[used] = k
    for output in outputs:
        if not output.weight_only and output.op != "Var":
            last[output] = len(order)
    made = {term: k for k, term in enumerate(order)}
    change = [0] * (len(order) + 2)
    for value, end in last.items():
        begin = made[node_of(value)] + 1
        if end - begin <= _LONG:
            change[begin] += 1
            change[end + 1] -= 1
    live = []
    total = 0
    for k in range(len(order) + 1):
        total += change[k]
        live.append(total)
    return live, last


def cut(
    live: Sequence[int], *, target: int = TARGET, largest: int = LARGEST, penalty: Mapping[int, float] | None = None
) -> list[int]:
    """Where to cut a line of `len(live) - 1` operators: the ends of the pieces.

    Pieces hold at most `largest` operators. Cuts prefer places where fewer values are live than nearby, and
    pieces near `target`; `penalty` is what a place costs beyond that. The best cuts are found by dynamic programming.
    """
    penalty = penalty or {}
    count = len(live) - 1
    # At the two ends nothing is live, which says nothing about the places between.
    inner = live[:-1]
    floor = [min(inner[max(1, k - largest // 2) : k + largest // 2 + 1], default=0) for k in range(count + 1)]
    size_cost = [(size / target) ** 2 for size in range(largest + 1)]
    best = [0.0] + [float("inf")] * count
    came = [0] * (count + 1)
    for end in range(1, count + 1):
        here = 1.0 + _LIVE * (live[end] - floor[end]) + penalty.get(end, 0.0)
        for start in range(max(0, end - largest), end):
            price = best[start] + size_cost[end - start] + here
            if price < best[end] - 1e-9:
                best[end], came[end] = price, start
    ends = []
    at = count
    while at > 0:
        ends.append(at)
        at = came[at]
    return ends[::-1]


def regions(
    outputs: Sequence[Term], order: Sequence[Term], operators: Container[str], avoid: Collection[frozenset[Term]] = ()
) -> tuple[list[Region], set[frozenset[Term]]]:
    """The regions that hold one of `operators`, in topological order, and the sets of values live at the cuts.

    `avoid`: sets of live values at which an earlier pass has cut; they are shunned here.
    """
    live, last = _live(order, outputs)
    made = {term: k for k, term in enumerate(order)}
    # What the runtime fuses into the operator before it, or a law takes with it, should not be cut off from it.
    penalty = {k: _FUSED for k in range(1, len(order)) if _goes_into(order[k], order[k - 1])}
    for values in avoid:
        ends = [made[node_of(v)] + 1 for v in values if node_of(v) in made]
        if ends:
            penalty[max(ends)] = _SHUNNED
    ends = cut(live, penalty=penalty, target=LATER_TARGET if avoid else TARGET)
    values_of: dict[int, list[Term]] = {}
    for value in last:
        values_of.setdefault(made[node_of(value)], []).append(value)
    found: list[Region] = []
    boundaries: set[frozenset[Term]] = set()
    shunned = frozenset[Term]().union(*avoid)
    start = 0
    for end in ends:
        alive = [v for k in range(start, end) for v in sorted(values_of.get(k, ()), key=_index) if last[v] >= end]
        if end < len(order):
            boundaries.add(frozenset(alive))
        if any(term.op in operators for term in order[start:end]):
            region = region_of(order[start:end], alive, shunned)
            if region is not None:
                found.append(region)
        start = end
    return found, boundaries


def _goes_into(term: Term, before: Term) -> bool:
    if term.op == "LayerNormalization":
        return before.op in ("Add", "Sum") and term.inputs[0] is before
    if before.op == "Concat" or (before.op in MOVING and term.op in MOVING):  # laws take both together
        return before in term.inputs
    return term.op in FUSED and term.inputs[0] is before and before.op not in FUSED - {"BatchNormalization"}


def _index(value: Term) -> int:
    index = value.attr("index") if value.op == "Out" else 0
    assert isinstance(index, int)
    return index


def canonical(outputs: Sequence[Term]) -> tuple[Term, ...] | None:
    """The graph as the region that it would be, were it cut out of a model just so; None where that is impossible."""
    region = region_of(operators_in_order(outputs, {}), outputs)
    return None if region is None else region.outputs


def region_of(
    piece: Sequence[Term], alive: Sequence[Term], cut_before: Collection[Term] = frozenset()
) -> Region | None:
    """The piece as a graph over leaves, or None where that does not give the model's own terms back. Its seams are the
    values of `cut_before` that it computes, and what is next to them."""
    inside = set(piece)
    closed: dict[Term, bool] = {}

    def closed_form(weight: Term) -> bool:
        for t in topological((weight,)):
            if t not in closed:
                closed[t] = t.op in CLOSED_FORM or (bool(t.inputs) and node_of(t).op in OPERATORS)
                closed[t] = closed[t] and all(i is None or closed[i] for i in t.inputs)
        return closed[weight]

    new: dict[Term, Term] = {}
    leaves: list[tuple[Term, Term]] = []
    values = weights = 0
    stack: list[Term] = list(reversed(alive))
    while stack:
        term = stack[-1]
        if term in new:
            stack.pop()
            continue
        if term.weight_only:
            if term.op in CLOSED_FORM:
                new[term] = term
                continue
            if not closed_form(term):
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
        except IllTyped:  # the model contradicts itself; leave this piece as it is
            return None
    outputs = tuple(new[value] for value in alive)
    if not outputs or fill(outputs, dict(leaves)) != tuple(alive):
        return None
    seams = {new[value] for value in new if value in cut_before and node_of(value) in inside}
    users = {term for term in new.values() if not seams.isdisjoint(term.inputs)}
    beside = run_time_terms([*seams, *users]) & {*seams, *users, *(i for term in seams for i in term.inputs)}
    return Region(outputs, tuple(leaves), tuple(alive), tuple(piece), frozenset(beside))
