"""Parts that depend on the execution provider, on the CPU and, where there is one, on a GPU."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest

from superopt import optimize
from superopt.bench.contest import BenchmarkSettings
from superopt.bench.contestants import ALWAYS
from superopt.bench.run import bench
from superopt.ir.infer import make
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import read_model
from superopt.optimizer.float64 import Float64Model
from superopt.runtime import Target, open_session, resolve_target, sessions
from superopt.runtime.measure import TimedModel, time_pair
from superopt.search import AnalyticCost, device_of
from superopt.search.cost.operator_form import isolated
from superopt.search.cost.operator_timer import OperatorTimer
from superopt.store import ResultStore
from tests.support.models import branches, lora


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def target(request: pytest.FixtureRequest) -> Target:
    return resolve_target(request.param, 1)


def drawn(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    (value,) = model.graph.input
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return {value.name: np.random.default_rng(0).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize("model", [lora(), branches()], ids=["lora", "branches"])
def test_outputs_are_those_of_the_cpu(model: onnx.ModelProto, target: Target) -> None:
    feeds = drawn(model)
    (found,) = open_session(model, target).run(feeds)
    (expected,) = open_session(model, Target("cpu", 1), level="none").run(feeds)
    assert np.abs(found - expected).max() < 2e-2 * np.abs(expected).max()  # products may be taken in TF32


def test_two_models_are_timed(target: Target) -> None:
    model = lora()
    timed = TimedModel(model, drawn(model))
    timing = time_pair(timed, timed, target, budget_s=0.1, sample_s=0.001)
    assert timing.clock == target.clock
    assert 0 < timing.low <= timing.ratio <= timing.high


def operators() -> list[Term]:
    """The operands of all kinds: computed and constant, of several types and ranks, alone and in copies."""
    weight = Term.of("Const", (), {"hash": "w"}, (tensor(64, 64),))
    x, y = var("x", tensor(8, 64)), var("y", tensor(8, 64))
    condition, i = var("c", tensor(8, 64, dtype="bool")), var("i", tensor(3, dtype="int64"))
    return [
        make("MatMul", (x, weight)),
        make("Add", (x, y)),
        make("Add", (x, var("s", tensor()))),
        make("Where", (condition, x, y)),
        make("Add", (i, i)),
        make("Softmax", (var("z", tensor(4, 256, 256)),), {"axis": -1}),
    ]


def measure(target: Target, path: Path) -> None:
    terms = operators()
    with ResultStore(path) as store:
        timer = OperatorTimer(target, 17, store, AnalyticCost(device_of(target.provider)))
        assert all(0 < timer.seconds(isolated(term, {})) < 1 for term in terms)


def test_operators_are_measured(target: Target, tmp_path: Path) -> None:
    measure(target, tmp_path / "store.sqlite")


def test_models_of_operators_for_cuda_run_on_the_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On CUDA operands are expanded from one element; such models are right wherever they run."""
    monkeypatch.setitem(sessions._PROVIDERS, "cuda", "CPUExecutionProvider")
    measure(Target("cuda", 1), tmp_path / "store.sqlite")


@pytest.mark.parametrize(
    ("provider", "cost"),
    [
        ("cpu", "analytic"),  # measured: `tests/optimizer`
        pytest.param("cuda", "analytic", marks=pytest.mark.cuda),
        pytest.param("cuda", "measured", marks=pytest.mark.cuda),
    ],
)
def test_a_model_is_optimized(provider: str, cost: str, tmp_path: Path, lora_rules: Path) -> None:
    model = tmp_path / "lora.onnx"
    onnx.save(lora(), model)
    options = {"ep": provider, "rules": lora_rules, "cost": cost, "budget": 1.0, "threads": 1}
    result = optimize(model, tmp_path / "fast.onnx", **options)
    assert result.provider == provider
    assert (tmp_path / "fast.onnx").exists()
    assert not result.changed or (result.latency is not None and result.latency.clock == Target(provider, 1).clock)


@pytest.mark.cuda  # on the CPU by `tests/bench`
def test_a_model_is_benchmarked(tmp_path: Path, lora_rules: Path) -> None:
    model, target = tmp_path / "lora.onnx", Target("cuda", 1)
    onnx.save(lora(), model)
    ours = {"budget": 1.0, "cost": "analytic", "rules": str(lora_rules)}
    settings = BenchmarkSettings(target, 1, measure_s=0.01, timeout_s=120.0, ours=ours)
    (contest,) = bench([model], ALWAYS, settings).contests
    assert contest.problem is None
    for row in contest.rows:
        assert row.status == "ok", row
        assert row.speeds.keys() == settings.clocks.keys()


def test_products_are_taken_in_float32_where_outputs_are_compared(target: Target) -> None:
    model = lora()
    feeds = drawn(model)
    exact = {name: array.astype(np.float64) for name, array in feeds.items()}
    (expected,) = Float64Model(read_model(model)).run(exact, math.inf)
    precise, deployed = (
        float(np.abs(open_session(model, one).run(feeds)[0] - expected).max() / np.abs(expected).max())
        for one in (target.in_float32, target)
    )
    assert precise < 1e-5
    assert precise <= deployed  # in TF32 an operand has 11 bits
