"""Timings of earlier runs count for the same two files, and for no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.optimizer import optimize, run
from superopt.optimizer.source import Source, model_digest
from superopt.optimizer.timing_cache import TimingCache
from superopt.runtime import Feeds, Target, Timing
from superopt.store import ResultStore
from tests.support.models import lora

CPU = Target("cpu", 1)
FEEDS = {"x": np.ones((2, 3), np.float32)}


class Timer:
    """Counts how often it is asked; each answer is another one."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(
        self, original: bytes | Path, candidate: bytes | Path, inputs: Sequence[Feeds], budget_s: float
    ) -> list[Timing]:
        self.calls += 1
        ratio = 1.0 + self.calls / 10
        return [Timing(ratio + k, 1.0, ratio + k, 1.05, 1.6, ratio, 1.0, 7, "cpu") for k in range(len(inputs))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def cached(timer: Timer, path: Path, original: bytes = b"one", target: Target = CPU, **options: Any) -> TimingCache:
    source = SimpleNamespace(digest=model_digest(original))
    return TimingCache(timer, target, source, ResultStore(path), options.pop("purpose", "choice"), **options)


def test_a_second_run_hears_what_the_first_has_measured(path: Path) -> None:
    timer = Timer()
    first = cached(timer, path)(b"one", b"other", [FEEDS], 5.0)[0]
    again = cached(timer, path)(b"one", b"other", [FEEDS], 5.0)[0]
    assert timer.calls == 1 and not first.remembered and again.remembered
    assert again == Timing(**{**vars(first), "remembered": True})
    assert cached(timer, path).known(b"other", [FEEDS]) == [again]
    assert cached(timer, path).known(b"other", [FEEDS, {"x": FEEDS["x"][:1]}]) == []
    assert cached(timer, path, remeasure=True).known(b"other", [FEEDS]) == []


@pytest.mark.parametrize(
    ("low", "high", "kept"), [(0.9, 1.1, False), (0.98, 1.0, True), (0.7, 0.9, False), (0.9, 0.93, True)]
)
def test_noise_is_not_remembered(path: Path, low: float, high: float, kept: bool) -> None:
    timing = Timing(0.95, 1.0, 0.95, low, high, 0.95, 1.0, 7, "cpu")
    source = SimpleNamespace(digest=model_digest(b"one"))
    for is_second in (False, True):
        cache = TimingCache(lambda *_: [timing], CPU, source, ResultStore(path), "choice")  # type: ignore[arg-type]
        assert cache(b"one", b"other", [FEEDS], 5.0)[0].remembered == (is_second and kept)


def test_measured_anew_on_demand_and_then_remembered(path: Path) -> None:
    timer = Timer()
    cached(timer, path)(b"one", b"other", [FEEDS], 5.0)
    anew = cached(timer, path, remeasure=True)(b"one", b"other", [FEEDS], 5.0)[0]
    assert timer.calls == 2 and not anew.remembered
    assert cached(timer, path)(b"one", b"other", [FEEDS], 5.0)[0].ratio == anew.ratio


def test_the_measurement_of_a_choice_does_not_serve_its_acceptance(path: Path) -> None:
    timer = Timer()
    chosen = cached(timer, path, purpose="choice")(b"one", b"other", [FEEDS], 5.0)[0]
    accepted = cached(timer, path, purpose="acceptance")(b"one", b"other", [FEEDS], 5.0)[0]
    assert not accepted.remembered and accepted.ratio != chosen.ratio
    again = cached(timer, path, purpose="acceptance")(b"one", b"other", [FEEDS], 5.0)[0]
    assert again.remembered and again.ratio == accepted.ratio


def test_other_files_inputs_or_conditions_are_measured(path: Path) -> None:
    timer = Timer()
    zeros, flat = {"x": np.zeros((2, 3), np.float32)}, {"x": np.ones(6, np.float32)}
    words = [{"x": np.array(word, dtype=object)} for word in (["a"], ["b"])]
    for target, original, candidate, feeds in [
        (CPU, b"one", b"other", FEEDS),
        (CPU, b"two", b"other", FEEDS),
        (CPU, b"one", b"third", FEEDS),
        (CPU, b"one", b"other", zeros),
        (CPU, b"one", b"other", flat),
        (Target("cpu", 2), b"one", b"other", FEEDS),
        *[(CPU, b"one", b"other", word) for word in words],
    ]:
        assert not cached(timer, path, original, target)(original, candidate, [feeds], 5.0)[0].remembered
    assert timer.calls == 8
    assert cached(timer, path)(b"one", b"other", [words[1]], 10.0)[0].remembered  # however long it is to take


def test_weights_in_files_of_their_own_count(path: Path, tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "outside",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 64))],
        [weights],
    )
    model = tmp_path / "model.onnx"
    onnx.save_model(
        helper.make_model(graph), model, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    timer = Timer()

    def timed() -> Timing:
        return TimingCache(timer, CPU, Source(model), ResultStore(path), "choice")(model, b"other", [FEEDS], 5.0)[0]

    timed()
    assert timed().remembered and Source(model).digest == model_digest(model)
    data = bytearray((tmp_path / "weights.bin").read_bytes())
    data[5] ^= 1
    (tmp_path / "weights.bin").write_bytes(data)
    assert not timed().remembered and Source(model).digest == model_digest(model)


def test_the_same_run_has_the_same_result(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    timer = Timer()
    monkeypatch.setattr(run, "interleaved_timer", lambda target, **_: timer)
    first, again = (optimize(lora(), rules=lora_rules, ep="cpu", threads=1, budget=5.0) for _ in range(2))
    assert first.changed and again.changed and first.latency is not None and again.latency is not None
    assert not first.latency.remembered and again.latency.remembered and first.latency.ratio == again.latency.ratio
    assert first.proto is not None and again.proto is not None
    assert first.proto.SerializeToString() == again.proto.SerializeToString()
    measured = optimize(lora(), rules=lora_rules, ep="cpu", threads=1, budget=5.0, remeasure=True)
    assert measured.latency is not None and not measured.latency.remembered
