"""Cuts a model into regions that are small enough to search.

The run-time operators are put into one topological order (the model's own order where possible), and the sequence is
cut where few values are live. A piece between two cuts is convex by construction: no path leaves it and comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence

from superopt.ir.term import Term, node_of, output_index
from superopt.properties import joins, rearranges
from superopt.search.cost.fused_kernels import NORMALIZATIONS
from superopt.search.cost.runtime_fusion import ACTIVATIONS, EPILOGUES, SUMS
from superopt.search.region import Region, extract_region

__all__ = ["cut_into_regions", "cut_positions"]

# Run-time operators in a region: the target in the first pass, the target in later passes, and the maximum.
# Regions of later passes may cover more of the model, because rewrites have made it smaller.
_TARGET_OPERATORS, _LATER_TARGET_OPERATORS = 10, 24
_MAX_OPERATORS = 40
# A value that is live for more operators than this is not counted: it is an input of every region in between.
_LONG_LIFE = 100
# Costs of a cut: for each live value more than at the best place nearby; between two operators that are fused or
# rewritten together; at a place where an earlier pass has cut.
_LIVE_VALUE_COST, _SPLIT_FUSION_COST, _EARLIER_CUT_COST = 2.0, 0.5, 3.0


def cut_into_regions(
    outputs: Sequence[Term], order: Sequence[Term], operators: Container[str], earlier: Collection[frozenset[Term]] = ()
) -> tuple[list[Region], set[frozenset[Term]]]:
    """Return the regions that contain one of `operators`, in topological order, and the set of live values at each cut.

    `order` lists the model's operators. `earlier` has the sets of live values at cuts of earlier passes; cuts avoid
    these places.
    """
    live, last_use = _liveness(order, outputs)
    made_at = {term: k for k, term in enumerate(order)}
    penalty = {k: _SPLIT_FUSION_COST for k in range(1, len(order)) if _belongs_to(order[k], order[k - 1])}
    for values in earlier:
        ends = [made_at[node_of(v)] + 1 for v in values if node_of(v) in made_at]
        if ends:
            penalty[max(ends)] = _EARLIER_CUT_COST
    ends = cut_positions(live, penalty=penalty, target=_LATER_TARGET_OPERATORS if earlier else _TARGET_OPERATORS)
    values_of: dict[int, list[Term]] = {}
    for value in last_use:
        values_of.setdefault(made_at[node_of(value)], []).append(value)
    found: list[Region] = []
    cuts: set[frozenset[Term]] = set()
    earlier_values = frozenset[Term]().union(*earlier)
    start = 0
    for end in ends:
        alive = [
            v for k in range(start, end) for v in sorted(values_of.get(k, ()), key=output_index) if last_use[v] >= end
        ]
        if end < len(order):
            cuts.add(frozenset(alive))
        if any(term.op in operators for term in order[start:end]):
            region = extract_region(order[start:end], alive, earlier_values)
            if region is not None:
                found.append(region)
        start = end
    return found, cuts


def _liveness(order: Sequence[Term], outputs: Sequence[Term]) -> tuple[list[int], dict[Term, int]]:
    """Return the number of live values before each operator and at the end, and the position of each value's last use.

    Values that are live for long (`_LONG_LIFE`) are not counted.
    """
    last_use: dict[Term, int] = {}
    for k, term in enumerate(order):
        for used in term.inputs:
            if used is not None and not used.is_constant and used.op != "Var":
                last_use[used] = k
    for output in outputs:
        if not output.is_constant and output.op != "Var":
            last_use[output] = len(order)
    made_at = {term: k for k, term in enumerate(order)}
    change = [0] * (len(order) + 2)
    for value, end in last_use.items():
        begin = made_at[node_of(value)] + 1
        if end - begin <= _LONG_LIFE:
            change[begin] += 1
            change[end + 1] -= 1
    live = []
    total = 0
    for k in range(len(order) + 1):
        total += change[k]
        live.append(total)
    return live, last_use


def cut_positions(
    live: Sequence[int],
    *,
    target: int = _TARGET_OPERATORS,
    largest: int = _MAX_OPERATORS,
    penalty: Mapping[int, float] | None = None,
) -> list[int]:
    """Return the end positions of the pieces into which a sequence of `len(live) - 1` operators is cut.

    Pieces have at most `largest` operators. Cuts prefer places where fewer values are live than nearby, and pieces
    near `target`. `penalty` is the additional cost of a place. The cuts of least cost are found by dynamic programming
    over the sequence, in O(operators x largest). Cut vertices of the graph (networkx) would miss cuts across several
    values.
    """
    penalty = penalty or {}
    count = len(live) - 1
    # No value is live at the two ends, so they are left out of the comparison with nearby places.
    inner = live[:-1]
    fewest = [min(inner[max(1, k - largest // 2) : k + largest // 2 + 1], default=0) for k in range(count + 1)]
    size_cost = [(size / target) ** 2 for size in range(largest + 1)]
    best = [0.0] + [float("inf")] * count
    previous = [0] * (count + 1)
    for end in range(1, count + 1):
        cut_cost = 1.0 + _LIVE_VALUE_COST * (live[end] - fewest[end]) + penalty.get(end, 0.0)
        for start in range(max(0, end - largest), end):
            total = best[start] + size_cost[end - start] + cut_cost
            if total < best[end] - 1e-9:
                best[end], previous[end] = total, start
    ends = []
    at = count
    while at > 0:
        ends.append(at)
        at = previous[at]
    return ends[::-1]


def _belongs_to(term: Term, before: Term) -> bool:
    """Return True if the runtime fuses `term` into `before`, or rules rewrite both together."""
    if term.op in NORMALIZATIONS:
        return before.op in SUMS and term.inputs[0] is before
    if joins(before.op) or (rearranges(before.op) and rearranges(term.op)):
        return before in term.inputs
    return term.op in EPILOGUES and term.inputs[0] is before and before.op not in ACTIVATIONS
