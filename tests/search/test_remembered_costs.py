"""Costs of earlier runs: a repeated run sees what the first one saw."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
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
from superopt.search import AnalyticCost, Gain, ModelTimer, Untimed
from superopt.search.cost import measurement_key as machine
from superopt.search.cost import operator_timer
from superopt.search.cost import region_timer as timer
from superopt.search.cost.concrete import concrete_attrs
from superopt.search.cost.measurement_key import hardware
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

    def sample_times(models: Sequence[TimedModel], *_: object) -> list[list[tuple[float, float]]]:
        ((model, _feeds),) = models
        assert isinstance(model, onnx.ModelProto)
        timed.append(frozenset(node.op_type for node in model.graph.node) & {"Relu", "Tanh"})
        return [[(3e-3 if timed[-1] else 1e-3, 1.0)]]

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


def _constant(name: str) -> Term:
    return Term.of("Const", (), {"hash": name}, (tensor(64, 64),))


def _layer(weight: str) -> Term:
    return make("Relu", (make("MatMul", (var("x", tensor(8, 64)), _constant(weight))),))


def _timed(path: Path) -> Callable[[str], Gain | None]:
    weights = {name: np.ones((64, 64), np.float32) for name in ("w", "v")}
    run = ModelTimer(CPU, weights, store=ResultStore(path), budget_s=0.02)
    return lambda name: run((_layer(name),), (make("Abs", (_layer(name),)),))


def test_regions_are_timed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _timed(tmp_path / "noise.sqlite")("w") is not None  # is kept only if it tells something
    path = tmp_path / "store.sqlite"
    monkeypatch.setattr(timer, "time_pair", lambda *_, **__: Timing(1.5, 1.0, 1.5, 1.4, 1.6, 1.5, 1.0, 9, "cpu"))
    gain = _timed(path)("w")
    assert gain == (1.5, 1.4)

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


@pytest.mark.parametrize(("low", "kept"), [(0.98, True), (0.8, False)])
def test_a_timing_that_is_noise_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, low: float, kept: bool
) -> None:
    path = tmp_path / "store.sqlite"
    monkeypatch.setattr(ModelTimer, "_time", lambda *_: Gain(1.0, low))
    assert ModelTimer(CPU, {}, store=ResultStore(path))((_layer("w"),), (_layer("w"),)) == (1.0, low)
    monkeypatch.setattr(ModelTimer, "_time", lambda *_: Gain(1.5, 1.4))
    again = ModelTimer(CPU, {}, store=ResultStore(path))((_layer("w"),), (_layer("w"),))
    assert again == ((1.0, low) if kept else (1.5, 1.4))


def test_nothing_is_timed_after_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.sqlite"
    monkeypatch.setattr(ModelTimer, "_time", lambda *_: Gain(1.5, 1.5))

    def ask(deadline: float) -> Gain | None:
        timer = ModelTimer(CPU, {}, store=ResultStore(path), deadline=deadline)
        return timer((_layer("w"),), (make("Abs", (_layer("w"),)),))

    with pytest.raises(Untimed):
        ask(time.monotonic() - 1)
    assert ask(time.monotonic() + 60) == (1.5, 1.5)
    assert ask(time.monotonic() - 1) == (1.5, 1.5)  # remembered
