"""The search of one region: what it finds, and what it refuses."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from superopt.ir.infer import make
from superopt.ir.notation import parse_rule, parse_terms
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.rulebook.loading import load_rules
from superopt.search.cost.analytic import AnalyticCost
from superopt.search.cost.graph_cost import GraphCost
from superopt.search.match.matcher import Matcher
from superopt.search.match.rule_index import RuleIndex
from superopt.search.match.signature_check import Check, CheckCache
from superopt.search.region import canonical
from superopt.search.strategy.local_search import LocalSearch
from superopt.search.strategy.region_search import RegionSearch
from superopt.search.strategy.search_context import SearchContext
from superopt.search.strategy.state import SearchState
from tests.support.search_graphs import Graphs, image, operators
from tests.support.search_rules import RULES, believe

RULE_SET = RuleIndex(RULES)
_CUT = "Slice[axes=[1], ends=e, starts=s, steps=[1]]"
PARTS = RuleIndex([parse_rule(f"{_CUT}(MatMul(a, b)) = MatMul(a, {_CUT}(b))")])


def searched(
    *outputs: Term,
    rules: RuleIndex = RULE_SET,
    check: Check = believe,
    alpha: float = 2.0,
    max_expansions: int = 700,
    focus: frozenset[Term] | None = None,
) -> RegionSearch:
    shared = SearchContext(Matcher(rules), CheckCache(check), GraphCost(AnalyticCost()))
    search = RegionSearch(outputs, shared, alpha=alpha, max_expansions=max_expansions, focus=focus)
    while not search.exhausted:
        search.improve()
    return search


@pytest.mark.parametrize("scale", [True, False])
def test_a_depthwise_block_of_mobileone_becomes_one_conv(scale: bool) -> None:
    block = Graphs().mobileone(image(), 8, 3, 8, 4, scale)
    assert operators(searched(block).best.outputs) == ["Conv", "Relu"]


def test_a_pointwise_block_of_mobileone_becomes_one_conv() -> None:
    block = Graphs().mobileone(image(), 8, 1, 1, 4, False)
    assert operators(searched(block).best.outputs) == ["Conv", "Relu"]


def test_layers_with_adapters_become_one_product_each() -> None:
    """Adding the adapter to the bias of the other product is a gain as well, and a dead end: before it, the factor and
    the transposed weights, which keep the two products from being merged, have to be folded away."""
    graphs, x = Graphs(), var("x", tensor(8, 256))
    for _ in range(3):
        attrs = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
        base = make("Gemm", (x, graphs.const(256, 256), graphs.const(256)), attrs)
        up = make("MatMul", (make("MatMul", (x, graphs.const(256, 8))), graphs.const(8, 256)))
        x = make("Relu", (make("Add", (base, make("Mul", (up, graphs.const())))),))
    assert operators(searched(x, rules=RuleIndex(load_rules())).best.outputs) == ["FusedGemm"] * 3


def test_a_block_of_repvgg_becomes_one_conv() -> None:
    """The identity branch can also become a depthwise Conv, which is cheaper at first and a dead end."""
    block = Graphs().repvgg(image(16, 28), 16)
    assert operators(searched(block).best.outputs) == ["Conv", "Relu"]


def test_a_low_rank_adapter_is_merged() -> None:
    """x.W + (x.A).B passes through x.W + x.(A.B), which is nearly twice as expensive."""
    layer = Graphs().lora(var("x", tensor(8, 256)), 256, 4)
    assert operators(searched(layer).best.outputs) == ["MatMul", "Add", "Relu"]


def test_with_a_focus_beam_searches_begin_there_only() -> None:
    """Two adapters in a row: only those in the focus are merged."""
    graphs = Graphs()

    def adapted(x: Term) -> Term:
        low = make("MatMul", (make("MatMul", (x, graphs.const(256, 4))), graphs.const(4, 256)))
        return make("Relu", (make("Add", (make("MatMul", (x, graphs.const(256, 256))), low)),))

    lower = adapted(var("x", tensor(8, 256)))
    upper = adapted(lower)
    first, second = (frozenset(t for add in relu.inputs if add for t in add.inputs if t) for relu in (lower, upper))
    nowhere = frozenset[Term]()
    products = {nowhere: 6, first: 4, second: 4, first | second: 2, None: 2}
    for focus, left in products.items():
        assert operators(searched(upper, focus=focus).best.outputs).count("MatMul") == left, focus


def test_alpha_bounds_the_cost_of_graphs_on_the_way() -> None:
    layer = Graphs().lora(var("x", tensor(8, 256)), 256, 4)
    assert operators(searched(layer, alpha=1.05).best.outputs).count("MatMul") == 3


def test_products_are_reassociated_by_cost() -> None:
    rule = RuleIndex([parse_rule("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))")])
    types = {"a": tensor(100, 100), "b": tensor(100, 100), "c": tensor(100, 100), "d": tensor(100, 1)}
    (chain,) = parse_terms("MatMul(MatMul(MatMul(a, b), c), d)", types)
    (best,) = parse_terms("MatMul(a, MatMul(b, MatMul(c, d)))", types)
    assert searched(chain, rules=rule).best.outputs == (best,)


def test_a_graph_that_cannot_be_improved_stays() -> None:
    block = Graphs().conv(image(), 3, 8)
    search = searched(block)
    assert search.best is search.start and search.predicted_speedup == 1.0


def test_nothing_is_applied_that_is_not_proven() -> None:
    block = Graphs().mobileone(image(), 8, 3, 8, 4, True)
    assert searched(block, check=lambda rule, bindings: None).best.outputs == (block,)


def test_a_rule_is_only_applied_where_it_is_proven() -> None:
    """Without the rule that adds kernels, nothing may be merged."""
    block = Graphs().mobileone(image(), 8, 3, 8, 4, True)

    def check(rule: Rule, bindings: Bindings) -> Signature | None:
        sums = rule.lhs[0].op == "Add" and rule.rhs[0].op == "Conv"
        return None if sums else believe(rule, bindings)

    assert operators(searched(block, check=check).best.outputs).count("Conv") >= 5


def test_the_same_graph_gives_the_same_result() -> None:
    found = [searched(Graphs().mobileone(image(), 8, 3, 8, 4, True)) for _ in range(2)]
    assert found[0].best.outputs == found[1].best.outputs
    assert found[0].expanded == found[1].expanded
    assert found[0].best.rule_ids() == found[1].best.rule_ids()


def test_the_limit_ends_the_search() -> None:
    search = searched(Graphs().mobileone(image(), 8, 3, 8, 4, True), max_expansions=5)
    assert search.expanded <= 6 and search.best.price < search.start.price


def test_a_deadline_in_the_past_leaves_things_as_they_are_and_the_search_can_go_on() -> None:
    block = Graphs().mobileone(image(), 8, 3, 8, 4, True)
    search = RegionSearch([block], SearchContext(Matcher(RULE_SET), CheckCache(believe), GraphCost(AnalyticCost())))
    assert not search.improve(deadline_s=0.0)
    assert search.best is search.start and search.effort == 0
    while not search.exhausted:
        search.improve()
    assert search.effort <= search.efforts and operators(search.best.outputs) == ["Conv", "Relu"]


def test_steps_lead_from_the_first_graph_to_the_best() -> None:
    block = Graphs().mobileone(image(), 8, 3, 8, 4, True)
    search = searched(block)
    rewrite = search.best.rewrite()
    assert rewrite.before == (block,) and rewrite.after == search.best.outputs
    assert len(rewrite.steps) == len(search.best.rule_ids()) == len(search.best.path())


def test_candidates_differ_in_cost_and_are_improvements() -> None:
    found = searched(Graphs().mobileone(image(), 8, 3, 8, 4, True)).candidates()
    times = [state.price.time_ps for state in found]
    assert len(found) > 2 and all(b > 1.02 * a for a, b in itertools.pairwise(times))


def test_a_restart_excludes_the_rule_with_the_largest_predicted_saving() -> None:
    search = searched(Graphs().lora(var("x", tensor(8, 64)), 64, 4))
    first = search.best
    assert search.predicted_speedup > 1
    search.restart_without_best_rule()
    assert search.best is search.start and not search.exhausted and not search.candidates()
    while not search.exhausted:
        search.improve()
    assert search.best.outputs != first.outputs
    assert set(first.rule_ids()) - set(search.best.rule_ids())


def test_a_gain_behind_a_more_expensive_graph_with_two_roots_is_found() -> None:
    """Products that share an input merge, then their activations, then the Split is read once: many small operators."""
    rules = RuleIndex(
        [
            *RULES,
            parse_rule(
                "(Sigmoid(Split[axis=k, split=s](x).0), Sigmoid(Split[axis=k, split=s](x).1)) = "
                "(Split[axis=k, split=s](Sigmoid(x)).0, Split[axis=k, split=s](Sigmoid(x)).1)"
            ),
        ]
    )
    types = {"x": tensor(1, 4), "v": tensor(4, 4), "w": tensor(4, 4)}
    outputs = parse_terms("(Sigmoid(MatMul(x, v)), Sigmoid(MatMul(x, w)))", types)
    search = searched(*outputs, rules=rules)
    assert operators(search.best.outputs) == ["Concat", "MatMul", "Sigmoid", "Split"] or (
        search.best.price.time_ps <= search.start.price.time_ps
    )


def test_the_order_of_operands_does_not_make_another_graph() -> None:
    """Sums of many terms have many orders; the search must end all the same."""
    types = {name: tensor(4, 4) for name in "abcdef"}
    (total,) = parse_terms("Add(Add(Add(Add(Add(a, b), c), d), e), f)", types)
    rules = RuleIndex([parse_rule("Add(Add(a, b), c) = Add(a, Add(b, c))")])
    search = searched(total, rules=rules, max_expansions=2000)
    assert search.best.price.time_ps == search.start.price.time_ps
    assert canonical(search.best.outputs) is not None


def test_all_users_of_a_value_are_rewritten_together() -> None:
    """Each part of a product is computed in addition to the whole, which is removed with the last of them."""
    parts, width = 6, 64
    weight = Graphs().const(width, parts * width)
    whole = make("MatMul", (var("x", tensor(width, width)), weight))
    cuts = ({"axes": (1,), "ends": (k + width,), "starts": (k,), "steps": (1,)} for k in range(0, parts * width, width))
    search = searched(*(make("Slice", (whole,), cut) for cut in cuts), rules=PARTS)
    assert operators(search.best.outputs) == ["MatMul"] * parts
    assert [step.roots for step in search.best.rewrite().steps] == [(root,) for root in search.start.outputs]


def test_a_value_with_another_user_is_not_rewritten_at_some_of_its_users() -> None:
    whole = make("MatMul", (var("x", tensor(64, 64)), Graphs().const(64, 128)))
    cuts = ({"axes": (1,), "ends": (k + 64,), "starts": (k,), "steps": (1,)} for k in (0, 64))
    search = searched(make("Relu", (whole,)), *(make("Slice", (whole,), cut) for cut in cuts), rules=PARTS)
    assert search.best is search.start


def test_of_rewrites_that_leave_the_time_as_it_is_those_of_long_operators_come_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    types = {name: tensor(64, 64) for name in "abc"} | {name: tensor(64) for name in "xyz"}
    (graph,) = parse_terms("Add(Mul(Mul(x, y), z), Mul(Mul(a, b), c))", types)
    begun: list[int] = []
    beam_search = LocalSearch.beam_search

    def spy(self: LocalSearch, first: SearchState, *others: Any) -> SearchState:
        assert first.step is not None and first.step.roots[0].type is not None
        begun.append(first.step.roots[0].type.rank or 0)
        return beam_search(self, first, *others)

    monkeypatch.setattr(LocalSearch, "beam_search", spy)
    searched(graph, rules=RuleIndex([parse_rule("Mul(Mul(x, y), z) = Mul(x, Mul(y, z))")]))
    assert begun == sorted(begun, reverse=True) and set(begun) == {1, 2}
