"""The sources of costs of `optimize`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner

from superopt.cli import main
from superopt.ir.rule import Rule
from superopt.ir.term import topological
from superopt.optimizer import Result, model_search, optimize
from superopt.optimizer.model_search import FoundRewrites, SearchRequest, search_model
from superopt.optimizer.strategies import Strategy
from superopt.runtime import Feeds, Timing
from superopt.search import Device, DeviceError, SearchResult, device_of, search
from tests.support.models import lora

ANALYTIC = Strategy("analytic", "analytic")
# Nothing but starting operators costs there.
STARTS = Device(dense=1e18, scalar=1e18, bandwidth=1e18, overhead=1e-6, name="a device of dreams")


def faster(original: object, candidate: object, feeds: Feeds, budget_s: float) -> Timing:
    return Timing(1.5, 1.0, 1.5, 1.5, 1.5, 1.5, 1.0, 9, "cpu")


def slower(original: object, candidate: object, feeds: Feeds, budget_s: float) -> Timing:
    return Timing(0.8, 1.0, 0.8, 0.8, 0.8, 0.8, 1.0, 9, "cpu")


def optimized(rules: Path, **options: Any) -> Result:
    return optimize(lora(), **{"ep": "cpu", "rules": rules, "budget": 5.0, "timer": faster, **options})


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr(model_search, "MeasuredCost", never)
    monkeypatch.setattr(model_search, "ModelTimer", never)


@pytest.mark.usefixtures("unmeasured")
def test_with_analytic_costs_the_search_measures_nothing(lora_rules: Path) -> None:
    result = optimized(lora_rules, cost="analytic")
    assert result.changed and result.operators_after == {"MatMul": 1, "Relu": 1}
    assert result.cost_source == f"analytic, {device_of('cpu').name}"
    assert result.latency is not None  # the result as a whole is measured all the same
    assert optimized(lora_rules, cost="analytic", device=STARTS).cost_source == "analytic, a device of dreams"
    assert not optimized(lora_rules, cost="analytic", timer=slower).changed


@pytest.mark.usefixtures("unmeasured")
def test_analytic_costs_give_the_same_result_twice(lora_rules: Path) -> None:
    one, other = (optimized(lora_rules, cost="analytic") for _ in range(2))
    assert one.proto is not None and other.proto is not None
    assert one.proto.SerializeToString() == other.proto.SerializeToString()


@pytest.mark.usefixtures("unmeasured")
def test_for_a_target_that_is_not_here_nothing_is_timed_and_the_result_says_so(lora_rules: Path) -> None:
    result = optimized(lora_rules, cost="analytic", device=STARTS, target_absent=True, timer=slower)
    assert result.changed and result.latency is None and result.difference is not None and result.proof is not None
    assert "not timed" in result.reason
    assert any("not timed" in notice and STARTS.name in notice for notice in result.notices)


def test_a_repetition_has_the_name_of_the_request_that_it_repeats(lora_rules: Path) -> None:
    names: list[str] = []

    def finder(request: SearchRequest) -> FoundRewrites:
        if request.strategy.time_regions:
            names.append(request.name)
        return FoundRewrites()

    for options in ({}, {"seed": 1}, {"budget": 300.0}, {"device": STARTS}, {}):
        optimized(lora_rules, finder=finder, **options)
    assert names[0] == names[4] and len(set(names)) == 4


def test_the_faster_result_of_both_searches_is_taken_and_repeated(lora_rules: Path) -> None:
    ways = [("measured", True), ("measured", False), ("analytic", False)]
    asked: list[tuple[str, bool]] = []

    def finder(request: SearchRequest) -> FoundRewrites:
        asked.append((request.strategy.cost, request.strategy.time_regions))
        rules = request.rules if asked[-1] == better else request.rules[:1]
        return search_model(replace(request, strategy=ANALYTIC, rules=rules))

    def timer(original: object, candidate: bytes | Path, feeds: Feeds, budget_s: float) -> Timing:
        assert isinstance(candidate, bytes)
        ratio = 3.0 / len(onnx.load_from_string(candidate).graph.node)
        return Timing(ratio, 1.0, ratio, ratio, ratio, ratio, 1.0, 9, "cpu")

    names = ("all rewrites", "all rewrites, no region timed", "all rewrites, by analytic costs")
    for seed, (better, name) in enumerate(zip(ways, names, strict=True), 10):
        for expected in (ways, [better]):
            asked.clear()
            result = optimized(lora_rules, device=STARTS, finder=finder, timer=timer, seed=seed)
            assert asked == expected
            assert result.operators_after == {"MatMul": 1, "Relu": 1}
            assert result.reason == name and result.latency is not None and result.latency.ratio == 1.5
        asked.clear()
        optimized(lora_rules, device=STARTS, finder=finder, timer=timer, seed=seed, remeasure=True)
        assert asked == ways


def test_what_no_search_makes_faster_is_kept_and_kept_again(lora_rules: Path) -> None:
    def finder(request: SearchRequest) -> FoundRewrites:
        rules = request.rules if request.strategy.cost == "analytic" else request.rules[:1]
        return search_model(replace(request, strategy=ANALYTIC, rules=rules))

    def timer(original: object, candidate: bytes | Path, feeds: Feeds, budget_s: float) -> Timing:
        assert isinstance(candidate, bytes)
        ratio = 1.0 - 0.05 * len(onnx.load_from_string(candidate).graph.node)
        return Timing(ratio, 1.0, ratio, ratio, ratio, ratio, 1.0, 9, "cpu")

    one, two = (optimized(lora_rules, device=STARTS, finder=finder, timer=timer, seed=3) for _ in range(2))
    assert [r.candidate for r in one.refused] == ["all rewrites", "all rewrites, by analytic costs"]
    assert one.refused[0].reason != one.refused[1].reason
    assert two.refused == one.refused[:1]
    assert two.reason == one.reason == f"no candidate passed: {one.refused[0].reason}"
    assert one.latency is not None and two.latency is not None and two.latency.ratio == one.latency.ratio


def test_options_that_cannot_be(lora_rules: Path, tmp_path: Path) -> None:
    for options in ({"cost": "guessed"}, {"target_absent": True}, {"target_absent": True, "cost": "analytic"}):
        with pytest.raises(ValueError, match="costs"):
            optimized(lora_rules, **options)
    (tmp_path / "odd.toml").write_text("dense = 'much'")
    with pytest.raises(DeviceError, match="odd"):
        optimized(lora_rules, cost="analytic", device=tmp_path / "odd.toml")


def test_the_command_takes_them(lora_rules: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(lora(), source)
    command = ["optimize", str(source), "-o", str(out), "--ep", "cpu", "--rules", str(lora_rules), "--budget", "5"]
    runner = CliRunner()
    done = runner.invoke(main, [*command, "--cost", "analytic", "--device", "cuda_h200", "--target-absent", "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["changed"] and found["latency"] is None and found["cost_source"] == "analytic, NVIDIA H200"
    assert "not timed" in done.stderr and out.exists()
    for wrong in (["--target-absent"], ["--device", "nowhere.toml"], ["--cost", "guessed"]):
        assert runner.invoke(main, [*command, *wrong]).exit_code == 2


@pytest.mark.parametrize(("cost", "kept"), [("measured", True), ("analytic", False)])
def test_algorithms_are_chosen_by_measurement_only(monkeypatch: pytest.MonkeyPatch, cost: str, kept: bool) -> None:
    """Fewer multiplications promise by arithmetic what kernels need not keep."""
    searched: list[Rule] = []

    def listen(outputs: object, rules: Iterable[Rule], *others: Any, **more: Any) -> SearchResult:
        searched.extend(rules)
        return search(outputs, (), *others, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(model_search, "search", listen)
    optimize(lora(), ep="cpu", cost=cost, budget=1.0, timer=faster)
    assert searched
    assert any(t.op == "Constant" for rule in searched for t in topological(rule.rhs)) == kept
