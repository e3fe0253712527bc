"""The time limit of a run in the library, and the best outcome so far."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from superopt.onnx_io import ModelError
from superopt.optimizer import Options, optimize
from superopt.optimizer.api import finish, optimize_here
from superopt.optimizer.outcome import Checkpoint, Outcome
from superopt.runtime import Feeds, Timing
from tests.support.models import endless, lora


class Timer:
    """A timer with the ratios that are given, one after the other."""

    def __init__(self, *ratios: float) -> None:
        self.ratios = list(ratios)

    def __call__(self, original: object, candidate: object, feeds: Feeds, budget_s: float) -> Timing:
        ratio = self.ratios.pop(0)
        return Timing(1.0, 1 / ratio, ratio, ratio, ratio, 1.0, 1 / ratio, 1, "cpu")


def test_an_endless_model_is_kept(tmp_path: Path) -> None:
    result = optimize(endless(), tmp_path / "out.onnx", ep="cpu", timeout=4.0)
    assert not result.changed and result.model == ""
    assert result.reason == "the time limit of 4 s has passed, before a candidate was validated"
    assert result.proto == onnx.load(tmp_path / "out.onnx") == endless()


def test_a_run_that_ends_in_time_is_as_any_other(tmp_path: Path, lora_rules: Path) -> None:
    onnx.save(lora(batch=256, size=128, rank=128), tmp_path / "model.onnx")
    heard: list[str] = []
    options = Options(ep="cpu", cost="analytic", rules=lora_rules, trace=tmp_path / "trace.json", timeout=600.0)
    result = optimize(tmp_path / "model.onnx", tmp_path / "out.onnx", options, progress=heard.append, threads=1)
    assert result.changed and result.latency is not None and not result.notices
    assert result.model == str(tmp_path / "model.onnx") and result.out == str(tmp_path / "out.onnx")
    assert result.proto == onnx.load(tmp_path / "out.onnx")
    assert (tmp_path / "trace.json").exists()
    assert "reading the model" in heard and "searching" in heard


def test_errors_are_those_of_any_other_run(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("no model")
    with pytest.raises(ModelError, match="not an ONNX model"):
        optimize(tmp_path / "model.onnx", timeout=60.0)


@pytest.mark.parametrize("timeout", [None, 60.0])
def test_errors_do_not_name_the_copy_of_a_model_in_memory(timeout: float | None) -> None:
    twice = lora()
    twice.graph.initializer.append(twice.graph.initializer[0])
    with pytest.raises(ModelError, match=r"^model: weight '\w+' is given twice"):
        optimize(twice, timeout=timeout)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_limits_are_positive_numbers(seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        Options(timeout=seconds)


def test_the_best_validated_outcome_is_kept_for_a_stop(tmp_path: Path, lora_rules: Path) -> None:
    """The run is stopped while the candidate that passed is measured anew."""
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(lora(), path)
    options = Options(ep="cpu", cost="analytic", rules=lora_rules, budget=20.0, trace=tmp_path / "trace.json")
    checkpoint = Checkpoint(tmp_path)

    class Stopped(Exception):
        pass

    def validated(outcome: Outcome | None) -> None:
        checkpoint.replace(outcome)
        raise Stopped

    with pytest.raises(Stopped):
        optimize_here(path, out, options, timer=Timer(1.5, 1.5), validated=validated)
    assert not out.exists()
    result = finish(path, out, options, tmp_path, "stopped")
    assert result.changed and result.latency is not None and result.latency.ratio == 1.5
    assert result.notices[-1] == "stopped; the result is the best one that was validated before"
    assert result.proto == onnx.load(out)
    assert len(onnx.load(out).graph.node) < len(lora().graph.node)
    assert (tmp_path / "trace.json").stat().st_size > 100


def test_a_candidate_that_is_refused_later_is_not_kept(tmp_path: Path, lora_rules: Path) -> None:
    heard: list[bool] = []
    options = Options(ep="cpu", cost="analytic", rules=lora_rules, budget=20.0)
    timer = Timer(1.5, *[0.5] * 40)  # the measurement made after the choice is slower
    result = optimize_here(lora(), None, options, timer=timer, validated=lambda found: heard.append(found is not None))
    assert not result.changed
    assert heard == [True, False]


def test_without_an_outcome_the_original_is_kept(tmp_path: Path) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(lora(), path)
    result = finish(path, out, Options(ep="cpu"), tmp_path, "stopped")
    assert (result.changed, result.reason) == (False, "stopped, before a candidate was validated")
    assert out.read_bytes() == path.read_bytes()
