"""Branches that are joined: rewrites of the join and of the branches' ends, however long the branches are."""

from __future__ import annotations

from superopt.ir.infer import make
from superopt.ir.notation import parse_rule
from superopt.ir.term import Term, topological, var
from superopt.ir.types import tensor
from superopt.search import AnalyticCost, search
from superopt.search.region import operators_in_order
from superopt.search.strategy.cuts import cut_into_regions
from tests.support.search_graphs import Graphs, operators
from tests.support.search_rules import believe

_CONV = "Conv[dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]]"
_PARTS = "Split[axis=-3, split=[x.shape[1], y.shape[1]]](w)"
SPLITTING = parse_rule(f"{_CONV}(Concat[axis=-3](x, y), w) = Add({_CONV}(x, {_PARTS}.0), {_CONV}(y, {_PARTS}.1))")
ENLARGING = parse_rule(f"{_CONV}(ResizeLinear[scales=s](x), w) = ResizeLinear[scales=s]({_CONV}(x, w))")


def head(graphs: Graphs, depth: int) -> tuple[Term, list[Term]]:
    """Two branches of `depth` pairs of operators, enlarged, and a Conv of both; also the branches' last operators."""
    branches = []
    for name, size in (("a", 16), ("b", 8)):
        x = var(name, tensor(1, 64, size, size))
        for _ in range(depth):
            x = make("Relu", (make("Add", (x, graphs.const(64, 1, 1))),))
        scales = {"coordinate_transformation_mode": "half_pixel", "scales": (64 // size, 64 // size)}
        branches.append(make("ResizeLinear", (x,), scales))
    return make("Relu", (graphs.conv(make("Concat", branches, {"axis": -3}), 1, 16),)), branches


def file_order(graph: Term) -> dict[Term, int]:
    """Branch after branch, as an exporter writes nodes."""
    return {term: k for k, term in enumerate(topological((graph,)))}


def test_the_ends_of_branches_meet_in_a_region_by_distance_only() -> None:
    graph, ends = head(Graphs(), 30)

    def is_cut(position: dict[Term, int]) -> bool:
        order = operators_in_order((graph,), position)
        regions, _ = cut_into_regions((graph,), order, frozenset({"Conv", "ResizeLinear"}))
        return not any(set(ends) <= set(region.operators) for region in regions)

    assert is_cut(file_order(graph)) and not is_cut({})


def test_a_conv_moves_into_long_branches() -> None:
    graph, _ = head(Graphs(), 30)
    rules = [SPLITTING, ENLARGING]
    result = search((graph,), rules, believe, AnalyticCost(), position=file_order(graph), budget_s=60.0)
    convs = [t for t in topological(result.outputs) if t.op == "Conv"]
    assert len(convs) == 2 and "Concat" not in operators(result.outputs)
    assert all(conv.inputs[0] is not None and conv.inputs[0].op == "Relu" for conv in convs)
