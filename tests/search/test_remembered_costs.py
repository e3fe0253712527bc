"""Costs of earlier runs: a repeated run sees what the first one saw."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from superopt.ir.dim import symbol
from superopt.ir.infer import make
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType, tensor
from superopt.runtime import Target, TimedModel, Timing
from superopt.search import AnalyticCost, Gain, MeasuredCost, ModelTimer, Untimed
from superopt.search.cost import measurement_key as machine
from superopt.search.cost import operator_timer
from superopt.search.cost import region_timer as timer
from superopt.search.cost.concrete import concrete_attrs
from superopt.search.cost.measurement_key import hardware
from superopt.search.cost.microbench import Unmeasurable
from superopt.search.cost.operator_form import describe, isolated
from superopt.search.cost.operator_timer import OperatorTimer
from superopt.store import ResultStore

CPU = Target("cpu", 1)


def relu(size: int) -> Term:
    return make("Relu", (var("x", tensor(size, 64)),))


def test_operators_with_the_same_operands_share_the_time_without_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    timed: list[frozenset[str]] = []

    def sample_times(model: TimedModel, *_: object) -> list[tuple[float, float]]:
        assert isinstance(model.model, onnx.ModelProto)
        timed.append(frozenset(node.op_type for node in model.model.graph.node) & {"Relu", "Tanh"})
        return [(3e-3 if timed[-1] else 1e-3, 1.0)]

    monkeypatch.setattr(operator_timer, "sample_times", sample_times)
    monkeypatch.setattr(operator_timer, "reference_time", lambda _: 1.0)
    store = ResultStore(tmp_path / "store.sqlite")
    timer = OperatorTimer(CPU, 17, store, AnalyticCost())
    relu_64, tanh_64, relu_32 = (
        make(op, (var("x0", tensor(n, 64)),)) for op, n in (("Relu", 64), ("Tanh", 64), ("Relu", 32))
    )
    seconds = [timer.seconds(alone) for alone in (relu_64, tanh_64, relu_32)]
    assert seconds == pytest.approx([2e-3 / 12] * 3)
    assert timed == [frozenset(ops) for ops in ({"Relu"}, (), {"Tanh"}, {"Relu"}, ())]


def test_the_key_tells_conditions_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    for clear in (machine._cpu, machine._gpus):
        clear.cache_clear()
    monkeypatch.setattr(machine.shutil, "which", lambda name: "/bin/nvidia-smi")

    def asked(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, "NVIDIA H200, 570.1\n", "")

    monkeypatch.setattr(machine.subprocess, "run", asked)
    assert "H200, 570.1" in hardware(Target("cuda", 1)) and "H200" not in hardware(CPU)
    machine._gpus.cache_clear()
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    assert hardware(Target("cuda", 1)).endswith("unknown")
    machine._gpus.cache_clear()


def test_symbols_in_attributes_take_their_sizes() -> None:
    n = symbol("n")
    attrs = concrete_attrs((("shape", (n, n + 1, -1)), ("axis", 2), ("mode", "DCR")), {"n": 3})
    assert attrs == {"shape": (3, 4, -1), "axis": 2, "mode": "DCR"}
    rows = make("Reshape", (var("x", TensorType("float", (n, 4))),), {"shape": (n, 2, 2), "allowzero": 0})
    keys = {describe(isolated(rows, {"n": size})) for size in (3, 5)}
    assert len(keys) == 2 and not any("n" in key.rpartition("Reshape")[2] for key in keys)


def test_estimates_made_for_lack_of_time_are_the_same_in_a_repetition(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    first = MeasuredCost(CPU, store=ResultStore(path), run="a")
    seconds = [first.cost(relu(64))]
    first.budget_s = -1.0
    seconds.append(first.cost(relu(128)))
    assert (first.counts.measured, first.counts.estimated) == (1, 1)
    again = MeasuredCost(CPU, store=ResultStore(path), run="a")  # which would have the time
    assert [again.cost(relu(64)), again.cost(relu(128))] == seconds
    assert (again.counts.measured, again.counts.cached, again.counts.estimated) == (0, 1, 1)
    other = MeasuredCost(CPU, store=ResultStore(path), run="b")
    assert other.cost(relu(128)) != seconds[1] and other.counts.measured == 1
    assert MeasuredCost(CPU, store=ResultStore(path), run="a").cost(relu(128)) == seconds[1]  # even then


def test_an_operator_that_cannot_be_measured_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Term] = []

    def refuse(self: OperatorTimer, alone: Term) -> float:
        tried.append(alone)
        raise Unmeasurable("no such kernel")

    monkeypatch.setattr(OperatorTimer, "seconds", refuse)
    for _ in range(2):
        cost = MeasuredCost(CPU, store=ResultStore(tmp_path / "store.sqlite"))
        assert cost.cost(relu(64)) == AnalyticCost().cost(relu(64))
        assert cost.counts.estimated == 1
    assert len(tried) == 1


def test_an_operator_that_the_runtime_cannot_run_costs_too_much_unless_the_model_has_it(tmp_path: Path) -> None:
    def recurrent(dtype: str, size: int) -> Term:
        weights, state = (1, 4 * size, size), (1, 1, size)
        shapes = {"x": (3, 1, size), "w": weights, "r": weights, "h": state, "c": state}
        x, w, r, h, c = (var(name, tensor(*shape, dtype=dtype)) for name, shape in shapes.items())
        return make("LSTM", (x, w, r, None, h, c))

    path = tmp_path / "store.sqlite"
    for _ in range(2):  # as measured, and as remembered
        cost = MeasuredCost(CPU, store=ResultStore(path))
        assert cost.cost(recurrent("float", 2)) < 1e-3
        assert cost.cost(recurrent("double", 2)) > 1.0
        within = MeasuredCost(CPU, store=ResultStore(path), present=[recurrent("double", 4)])
        assert within.cost(recurrent("double", 2)) < 1e-3
        assert (
            MeasuredCost(CPU, store=ResultStore(path), present=[recurrent("float", 4)]).cost(recurrent("double", 2)) > 1
        )


def _constant(name: str) -> Term:
    return Term.of("Const", (), {"hash": name}, (tensor(64, 64),))


def _layer(weight: str) -> Term:
    return make("Relu", (make("MatMul", (var("x", tensor(8, 64)), _constant(weight))),))


def _timed(path: Path) -> Callable[[str], Gain | None]:
    weights = {name: np.ones((64, 64), np.float32) for name in ("w", "v")}
    run = ModelTimer(CPU, weights, store=ResultStore(path), budget_s=0.02)
    return lambda name: run((_layer(name),), (make("Abs", (_layer(name),)),))


def test_regions_are_timed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.sqlite"
    gain = _timed(path)("w")
    assert gain is not None

    def never(*_: Any, **__: Any) -> Timing:
        raise AssertionError("timed again")

    monkeypatch.setattr(timer, "time_pair", never)
    assert _timed(path)("w") == gain == _timed(path)("v")  # weights of the same types are the same region
    weights = {"w": np.ones((64, 64), np.float32)}
    for different in (Target("cpu", 2), CPU):
        other = ModelTimer(different, weights, store=ResultStore(path), opset=18)
        with pytest.raises(AssertionError, match="timed again"):
            other((_layer("w"),), (make("Abs", (_layer("w"),)),))


def test_that_a_region_cannot_be_timed_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = make("Relu", (var("x", TensorType("float", (symbol("n"), 4))),))
    path = tmp_path / "store.sqlite"
    assert ModelTimer(CPU, {}, store=ResultStore(path))((x,), (x,)) is None
    monkeypatch.setattr(ModelTimer, "_time", lambda *_: Gain(1.0, 1.0))
    assert ModelTimer(CPU, {}, store=ResultStore(path))((x,), (x,)) is None
    assert ModelTimer(CPU, {}, store=ResultStore(path), sizes={"n": 2})((x,), (x,)) == (1.0, 1.0)


def test_a_region_not_timed_for_lack_of_time_is_not_timed_by_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.sqlite"
    monkeypatch.setattr(ModelTimer, "_time", lambda *_: Gain(1.5, 1.5))

    def ask(most_s: float, run: str) -> Gain | None:
        timer = ModelTimer(CPU, {}, store=ResultStore(path), total_budget_s=most_s, run=run)
        return timer((_layer("w"),), (make("Abs", (_layer("w"),)),))

    for most_s in (-1.0, 10.0):
        with pytest.raises(Untimed):
            ask(most_s, "one")
    assert ask(10.0, "other") == (1.5, 1.5)
    with pytest.raises(Untimed):
        ask(10.0, "one")  # the same again, though another run has timed it since
