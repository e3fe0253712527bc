"""Cost models, the price of a graph, and incremental prices of rewrites."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.ir.infer import make, replace
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import tensor
from superopt.rulebook.loading import load_rules
from superopt.search import CPU, AnalyticCost, Device
from superopt.search.cost.graph_cost import GraphCost
from superopt.search.cost.incremental import IncrementalCost
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.match.rule_index import RuleIndex
from tests.support.prices import ANALYTIC, price
from tests.support.search_graphs import Graphs, image
from tests.support.search_rules import RULES


def test_copies_cost() -> None:
    copies: dict[str, dict[str, Attr]] = {
        "Transpose": {"perm": (0, 2, 3, 1)},
        "Split": {"axis": -3, "split": (4, 4)},
        "Pad": {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0},
    }
    for op, attrs in copies.items():
        assert ANALYTIC.cost(make(op, (image(),), attrs)) > CPU.overhead + 1e-9


def test_constant_expressions_are_free() -> None:
    graphs = Graphs()
    product = make("MatMul", (graphs.const(64, 64), graphs.const(64, 64)))
    assert ANALYTIC.cost(product) == 0.0
    x = var("x", tensor(8, 64))
    assert price(make("MatMul", (x, product))) == pytest.approx(price(make("MatMul", (x, graphs.const(64, 64)))))


def test_a_larger_folded_weight_costs_more() -> None:
    graphs = Graphs()
    x = var("x", tensor(1, 256))
    small = make("MatMul", (make("MatMul", (x, graphs.const(256, 4))), graphs.const(4, 256)))
    large = make("MatMul", (x, make("MatMul", (graphs.const(256, 4), graphs.const(4, 256)))))
    assert price(large) > price(small)
    assert GraphCost(ANALYTIC).price([large]).weight_bytes > GraphCost(ANALYTIC).price([small]).weight_bytes


def _looked_up(table: Term, name: str = "i") -> Term:
    return make("Lookup", (table, var(name, tensor(2, 3, dtype="int64"))), {"axis": -2})


def test_a_table_costs_the_rows_that_are_read() -> None:
    graphs = Graphs()
    small, large, weight = graphs.const(100, 64), graphs.const(100_000, 64), graphs.const(64, 64)
    assert price(_looked_up(small)) == price(_looked_up(large))
    assert price(_looked_up(make("MatMul", (large, weight)))) < price(make("MatMul", (_looked_up(large), weight)))


def test_the_incremental_price_of_tables() -> None:
    """A table is read as a whole, by rows, or by both, before a rewrite and after it."""
    graphs, costs = Graphs(), GraphCost(ANALYTIC)
    table, weight, x = graphs.const(100, 64), graphs.const(64, 64), var("x", tensor(4, 64))
    z = var("z", tensor(2, 3, 64))
    other = make("MatMul", (table, weight))
    tied = make("MatMul", (x, make("Transpose", (table,), {"perm": (1, 0)})))
    whole = make("Add", (table, var("y", tensor(100, 64))))
    before, after = make("MatMul", (_looked_up(table), weight)), _looked_up(other)
    for rest in ((), (tied,), (whole,), (_looked_up(table, "j"),), (_looked_up(other, "j"),), (make("Neg", (table,)),)):
        for old, new in ((before, after), (after, before), (_looked_up(whole), after), (before, z)):
            outputs = (make("Relu", (old,)), *rest)
            graph = IncrementalCost(costs, GraphIndex(outputs))
            assert graph.price((old,), (new,)) == costs.price(replace(outputs, {old: new}))


def test_neutral_operators_are_free_but_counted() -> None:
    x = image()
    relu = make("Relu", (x,))
    same = make("Identity", (make("Add", (relu, make("Zeros", (), {"shape": ()}))),))
    assert price(same) == price(relu)
    assert GraphCost(ANALYTIC).price([same]) > GraphCost(ANALYTIC).price([relu])


def test_a_shared_term_is_paid_once() -> None:
    relu = make("Relu", (image(),))
    assert price(make("Sigmoid", (relu,)), relu) == pytest.approx(price(make("Sigmoid", (relu,))))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.sampled_from([1, 3]), st.integers(0, 3))
def test_the_incremental_price_is_the_price_of_the_result(branches: int, scale: bool, kernel: int, steps: int) -> None:
    outputs: tuple[Term, ...] = (Graphs().mobileone(image(), 8, kernel, 8, branches, scale),)
    costs, matcher = GraphCost(ANALYTIC), Matcher(RuleIndex(RULES))
    for step in range(steps + 1):
        graph = IncrementalCost(costs, GraphIndex(outputs))
        matches = list(matcher.matches(graph.index))
        for match in matches:
            result = replace(outputs, dict(zip(match.roots, match.results, strict=True)))
            assert graph.price(match.roots, match.results) == costs.price(result)
        if matches:
            chosen = matches[(7 * step) % len(matches)]
            outputs = replace(outputs, dict(zip(chosen.roots, chosen.results, strict=True)))


@cache
def shipped() -> Matcher:
    return Matcher(RuleIndex(load_rules()))


def transformer_block(x: Term) -> Term:
    """Return a block with operators that the runtime fuses, and some that it does not because values are used twice."""
    graphs = Graphs()
    ones, divisor, half = make("Ones", (), {"shape": ()}), graphs.const(), graphs.const()
    projected = make("Add", (make("MatMul", (x, graphs.const(8, 8))), graphs.const(8)))
    norm = {"axis": -1, "epsilon": 1e-5}
    y = make("LayerNormalization", (make("Add", (projected, x)), graphs.const(8), graphs.const(8)), norm)
    z = make("Add", (y, graphs.const(8)))
    erf = make("Add", (make("Erf", (make("Div", (z, divisor)),)), ones))
    gelu = make("Mul", (make("Mul", (z, erf)), half))
    silu = make("Mul", (gelu, make("Sigmoid", (gelu,))))
    mean = make("ReduceMean", (make("Pow", (silu, graphs.const())),), {"axes": (-1,), "keepdims": 1})
    inverse = make("Div", (ones, make("Sqrt", (make("Add", (mean, graphs.const())),))))
    normed = make("Mul", (graphs.const(8), make("Mul", (silu, inverse))))
    cubic = make("Mul", (make("Pow", (normed, graphs.const())), graphs.const()))
    tanh = make("Tanh", (make("Mul", (make("Add", (normed, cubic)), graphs.const())),))
    fast = make("Add", (make("Mul", (make("Mul", (normed, half)), make("Add", (tanh, ones)))), x))
    centred = make("Sub", (fast, make("ReduceMean", (fast,), {"axes": (2,), "keepdims": 1})))
    variance = make("ReduceMean", (make("Pow", (centred, graphs.const())),), {"axes": (-1,), "keepdims": 1})
    quotient = make("Div", (centred, make("Sqrt", (make("Add", (variance, graphs.const())),))))
    rows = make("Add", (make("Mul", (quotient, graphs.const(8))), graphs.const(8)))
    scaled = make("Mul", (make("MatMul", (rows, graphs.const(8, 8))), half))
    both = make("Add", (make("Add", (scaled, y)), make("Relu", (make("Relu", (projected,)),))))
    return make("LayerNormalization", (both, graphs.const(8), graphs.const(8)), norm)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=6), st.booleans())
def test_the_incremental_price_is_exact_where_kernels_change(choices: list[int], twice: bool) -> None:
    x = var("x", tensor(2, 4, 8))
    outputs: tuple[Term, ...] = (transformer_block(transformer_block(x)) if twice else transformer_block(x),)
    costs = GraphCost(ANALYTIC)
    for choice in [*choices, 0]:
        graph = IncrementalCost(costs, GraphIndex(outputs))
        matches = list(shipped().matches(graph.index))
        for match in matches:
            result = replace(outputs, dict(zip(match.roots, match.results, strict=True)))
            estimated, exact = graph.price(match.roots, match.results), costs.price(result)
            # Terms above the roots that come to equal others are counted twice.
            assert estimated == exact if estimated.nodes == exact.nodes else estimated.nodes > exact.nodes
        chosen = matches[choice % len(matches)]
        outputs = replace(outputs, dict(zip(chosen.roots, chosen.results, strict=True)))


def test_a_root_that_stays_is_paid_for() -> None:
    """The smaller of two windows over one image stays, and the larger one reads its result."""
    x = image()
    pools = [make("MaxPool", (x,), {"dilations": (1, 1), "kernel_shape": (k, k), "pads": (k // 2,) * 4,
                                    "strides": (1, 1)}) for k in (5, 9)]  # fmt: skip
    graph, costs = GraphIndex((make("Concat", (x, *pools), {"axis": 1}),)), GraphCost(ANALYTIC)
    staying = [match for match in shipped().matches(graph) if match.roots[0] is match.results[0]]
    assert staying
    for match in staying:
        found = replace(graph.outputs, dict(zip(match.roots, match.results, strict=True)))
        assert IncrementalCost(costs, graph).price(match.roots, match.results) == costs.price(found)


def test_a_faster_device_costs_less() -> None:
    conv = Graphs().conv(image(), 3, 8)
    fast = Device(dense=1e13, scalar=1e13, bandwidth=1e12, overhead=1e-7)
    assert AnalyticCost(fast).cost(conv) < AnalyticCost(CPU).cost(conv)
    assert AnalyticCost(CPU, threads=4).cost(conv) < AnalyticCost(CPU).cost(conv)
