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
from superopt.ir.term import Term, topological
from superopt.optimizer import Result, model_search, optimize, run
from superopt.optimizer.model_search import FoundRewrites, SearchRequest
from superopt.search import Device, DeviceError, SearchResult, device_of, search
from superopt.search.cost.operator_timer import OperatorTimer
from tests.support.models import lora
from tests.support.timers import faster, slower

# Nothing but starting operators costs there.
STARTS = Device(dense=1e18, scalar=1e18, bandwidth=1e18, overhead=1e-6, name="a device of dreams")


def optimized(rules: Path, **options: Any) -> Result:
    return optimize(lora(), **{"ep": "cpu", "rules": rules, "budget": 5.0, "timer": faster, **options})


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr(run, "calibrate", never)
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


def test_with_measured_costs_the_machine_is_described_once(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[int] = []

    def seconds(self: OperatorTimer, alone: Term) -> float:
        timed.append(1)
        return 1e-5

    monkeypatch.setattr(OperatorTimer, "seconds", seconds)
    heard: list[SearchRequest] = []

    def finder(request: SearchRequest) -> FoundRewrites:
        heard.append(request)
        return FoundRewrites()

    optimized(lora_rules, finder=finder, threads=3)
    first = len(timed)
    optimized(lora_rules, finder=finder, threads=3)
    assert len(timed) == first > 100
    one, again = (request.device for request in heard)
    assert one is not None and one == again and one.name == "this machine (cpu)" and one.measured
    assert [request.time_regions for request in heard] == [True, True]
    optimized(lora_rules, finder=finder, threads=3, device=STARTS)
    assert heard[-1].device == STARTS and len(timed) == first


def test_predictions_from_measured_operators_are_called_so(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that was not measured, as CPU, has analytic costs only."""
    monkeypatch.setattr(model_search, "_timers", lambda *_: [])
    server = replace(STARTS, name="server", measured=True)
    for device, cost, kind in ((server, "measured", "measured operators"), (server, "analytic", "analytic")):
        assert optimized(lora_rules, cost=cost, device=device).cost_source == f"{kind}, server"
    assert optimized(lora_rules, device=STARTS).cost_source == f"analytic, {STARTS.name}"
    assert optimized(lora_rules, device=server, quick=True).cost_source.startswith("analytic, server; ")


def test_the_original_is_kept_if_no_candidate_passes(lora_rules: Path) -> None:
    result = optimized(lora_rules, cost="analytic", timer=slower)
    assert result.refused[0].candidate == "all rewrites" and result.refused[0].reason.startswith("slower")
    assert result.reason == result.refused[0].reason
    assert result.latency is not None and result.latency.ratio == 0.8


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


@pytest.mark.parametrize(
    ("cost", "effort", "kept"), [("measured", 2, True), ("measured", 1, True), ("analytic", 2, False)]
)
def test_algorithms_are_chosen_by_measurement_only(
    monkeypatch: pytest.MonkeyPatch, cost: str, effort: int, kept: bool
) -> None:
    """Fewer multiplications promise by arithmetic what kernels need not keep."""
    searched: list[Rule] = []

    def listen(outputs: object, rules: Iterable[Rule], *others: Any, **more: Any) -> SearchResult:
        searched.extend(rules)
        return search(outputs, (), *others, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(model_search, "search", listen)
    optimize(lora(), ep="cpu", cost=cost, effort=effort, budget=1.0, timer=faster)
    assert searched
    assert any(t.op == "Constant" for rule in searched for t in topological(rule.rhs)) == kept
