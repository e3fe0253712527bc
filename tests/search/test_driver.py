"""The whole search: regions, traces, replay in the kernel, and equal values in the end."""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest

from superopt.evaluate import evaluate
from superopt.ir.infer import make
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, topological, var
from superopt.ir.types import tensor
from superopt.search import AnalyticCost, Gain, SearchProgress, SearchResult, Untimed, search
from superopt.search.apply import AppliedTrace
from tests.support.search_graphs import Graphs, image, operators
from tests.support.search_rules import RULES, believe
from verify.proof_book import ProofBook
from verify.replay import replay


def found(*outputs: Term, budget_s: float = 60.0, max_expansions: int = 400, **options: object) -> SearchResult:
    arguments = {"position": {}, "budget_s": budget_s, "max_expansions": max_expansions, **options}
    return search(outputs, RULES, believe, AnalyticCost(), **arguments)  # type: ignore[arg-type]


def network(blocks: int = 3) -> Term:
    graphs, x = Graphs(), image()
    for _ in range(blocks):
        x = graphs.mobileone(x, 8, 3, 8, 2, True)
    return x


def values(outputs: tuple[Term, ...]) -> list[np.ndarray]:
    """Return the outputs on random inputs and weights, by the definitions of the operators."""
    env: dict[Term, np.ndarray] = {}
    weights: dict[str, np.ndarray] = {}
    for term in topological(outputs):
        if term.op not in ("Var", "Const"):
            continue
        assert term.type is not None
        name = str(term.attrs[0][1])
        seed = [sum(name.encode()), len(name)]
        array = np.random.default_rng(seed).random(term.type.concrete()) + 0.5
        if term.op == "Var":
            env[term] = array
        else:
            weights[name] = array
    return list(evaluate(outputs, env, weights))


def test_a_network_keeps_its_values() -> None:
    outputs = (network(),)
    result = found(*outputs)
    assert operators(result.outputs) == ["Conv", "Relu"] * 3
    for before, after in zip(values(outputs), values(result.outputs), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-9)


def test_equal_blocks_are_searched_once() -> None:
    one, many = found(network(1)), found(network(6))
    assert (many.regions_total, many.regions_unique, many.regions_improved) == (6, 1, 1)
    assert many.states < 3 * one.states  # the second pass has larger regions
    assert many.rule_uses == {rule: 6 * count for rule, count in one.rule_uses.items()}
    assert len({a.rewrite for a in many.traces[0].applications}) == 1


def test_traces_give_the_outputs_again() -> None:
    outputs = (network(), make("Relu", (image(),)))
    result = found(*outputs)
    again: tuple[Term, ...] = outputs
    for trace in result.traces:
        again = AppliedTrace(again, trace, {}).outputs
    assert all(a is b for a, b in zip(again, result.outputs, strict=True))


def test_the_kernel_replays_what_the_search_found() -> None:
    """With real proofs, region by region. The terms are identical."""
    book = ProofBook()
    outputs = (network(2),)
    result = search(outputs, RULES, book.check, AnalyticCost(), position={}, max_expansions=150)
    assert operators(result.outputs) == ["Conv", "Relu"] * 2
    again: tuple[Term, ...] = outputs
    for trace in result.traces:
        again = replay(again, trace, book)
    assert all(a is b for a, b in zip(again, result.outputs, strict=True))


def test_costs_and_gains() -> None:
    result = found(network(4))
    assert 0 < result.cost_after < result.cost_before
    saved = sum(result.savings_s[a.rewrite] for trace in result.traces for a in trace.applications)
    assert saved == pytest.approx(result.cost_before - result.cost_after, rel=0.01)


def test_new_terms_name_their_rule() -> None:
    result = found(network(2))
    ids = {rule.id for rule in RULES}
    convs = [t for t in topological(result.outputs) if t.op == "Conv"]
    assert convs and all(result.origin[conv] in ids for conv in convs)
    assert set(result.origin.values()) <= set(result.rule_uses)


def test_a_search_without_time_has_not_tried_everything() -> None:
    result = found(network(2), budget_s=0.0)
    assert not result.traces and not result.complete


def test_nothing_to_do() -> None:
    outputs = (make("Relu", (image(),)),)
    result = found(*outputs)
    assert result.outputs == outputs and result.traces == () and result.rule_uses == {}
    assert result.cost_after == result.cost_before and result.complete
    empty = found(image())
    assert empty.outputs == (image(),) and empty.regions_total == 0


def test_a_second_pass_sees_across_the_cuts_of_the_first() -> None:
    """A chain of products longer than a region: the cheap end must travel through all of it."""
    x = var("x", tensor(64, 64))
    column = var("c", tensor(64, 1))
    value = x
    for k in range(14):
        value = make("MatMul", (value, var(f"y{k}", tensor(64, 64))))
    result = found(make("MatMul", (value, column)), max_expansions=1500)
    assert len(result.traces) > 1
    assert result.cost_after < 0.5 * result.cost_before


def test_the_budget_is_kept() -> None:
    begun = time.monotonic()

    def slow(rule: Rule, bindings: Bindings) -> Signature | None:
        time.sleep(0.02)
        return believe(rule, bindings)

    graphs, x = Graphs(), image()
    for branches in (2, 3, 4, 5):
        x = graphs.mobileone(x, 8, 3, 8, branches, True)
    result = search((x,), RULES, slow, AnalyticCost(), position={}, deadline=begun + 0.3)
    assert time.monotonic() - begun < 1.8
    assert not result.complete


def test_garbage_is_collected_rarely_and_afterwards_as_before() -> None:
    before, inside = gc.get_threshold(), list[int]()
    graph = Graphs().mobileone(image(), 8, 3, 8, 2, True)

    def failing(rule: Rule, bindings: Bindings) -> Signature | None:
        inside.append(gc.get_threshold()[0])
        raise ValueError("cannot check")

    with pytest.raises(ValueError, match="cannot check"):
        search((graph,), RULES, failing, AnalyticCost(), position={})
    assert inside[0] > before[0]
    assert gc.get_threshold() == before


def test_no_budget_changes_nothing() -> None:
    outputs = (network(1),)
    assert found(*outputs, budget_s=0.0).outputs == outputs


def test_the_same_graph_gives_the_same_result() -> None:
    first, second = found(network(2)), found(network(2))
    assert first.complete and second.complete
    assert first.outputs == second.outputs and first.traces == second.traces and first.states == second.states


def test_results_that_are_not_measured_to_be_faster_are_dropped() -> None:
    timed: list[tuple[tuple[Term, ...], tuple[Term, ...]]] = []

    def timer(before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain:
        timed.append((before, after))
        return Gain(1.001, 1.0)

    outputs = (network(3),)
    result = found(*outputs, region_timer=timer)
    assert result.outputs == outputs and result.traces == ()
    # A few candidates of each distinct region (the second pass has larger ones), each once; and as many without the
    # rule that promised most.
    assert len(set(timed)) == len(timed)
    assert all(sum(before == other for other, _ in timed) <= 6 for before, _ in timed)
    assert {str(t.attr("hash"))[0] for before, _ in timed for t in topological(before) if t.op == "Const"} == {"c"}


def test_the_next_best_result_is_tried_where_the_best_disappoints() -> None:
    seen: list[list[str]] = []

    def timer(before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain:
        seen.append(operators(after))
        return Gain(1.0, 0.999) if len(seen) == 1 else Gain(1.01, 1.006)

    result = found(network(1), region_timer=timer)
    assert len(seen) == 2 and operators(result.outputs) == seen[1] != seen[0]


def test_where_a_region_cannot_be_timed_the_cost_model_decides() -> None:
    assert operators(found(network(1), region_timer=lambda before, after: None).outputs) == ["Conv", "Relu"]


def test_progress_is_told() -> None:
    heard: list[SearchProgress] = []
    found(network(2), progress=heard.append)
    assert heard and heard[-1].cost_ratio < 1.0 and all(at.done <= at.total for at in heard)


def test_opaque_operators_are_carried_along() -> None:
    graphs, x = Graphs(), image()
    first = graphs.mobileone(x, 8, 3, 8, 2, True)
    noise = Term.of("RandomNormalLike", (first,), {"node": 4}, first.types)
    last = graphs.mobileone(make("Add", (noise, first)), 8, 3, 8, 2, True)
    assert operators(found(last).outputs) == ["Conv", "Relu", "RandomNormalLike", "Add", "Conv", "Relu"]


@pytest.mark.parametrize(("least", "believed"), [(1.1, True), (1000.0, False)])
def test_large_predicted_speedups_are_believed_if_the_timer_has_no_time(
    monkeypatch: pytest.MonkeyPatch, least: float, believed: bool
) -> None:
    def timer(before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain:
        raise Untimed

    monkeypatch.setattr("superopt.search.strategy.result_choice._MIN_BELIEVED_SPEEDUP", least)
    assert bool(found(network(1), region_timer=timer).traces) == believed
