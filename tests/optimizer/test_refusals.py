"""What is wrong, slower or not proven is not written; otherwise the original is, unchanged."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from superopt.ir.notation import parse_rule
from superopt.ir.pattern import instantiate, match
from superopt.ir.trace import Application, Rewrite, Step, Trace
from superopt.onnx_io import Model, read_model
from superopt.optimizer import candidate_check
from superopt.optimizer.model_search import FoundRewrites, SearchRequest, search_model
from superopt.optimizer.pace import Pace
from superopt.runtime import Feeds, Timing
from tests.support.certified import certified
from tests.support.models import floats, lora, model
from tests.support.optimizing import run_optimize
from tests.support.timers import slower, timing


def test_folding_alone_is_refused_with_a_reason_that_stands_alone(lora_rules: Path) -> None:
    kept = run_optimize(
        model([helper.make_node("Identity", ["x"], ["y"])], [floats("x", 2)], [floats("y", 2)]), None, lora_rules
    )
    assert not kept.changed
    assert kept.reason == "only constants would be folded, and nothing is gained by that"


def test_slower_candidate_is_refused(saved: Path, tmp_path: Path, lora_rules: Path) -> None:
    out = tmp_path / "fast.onnx"
    result = run_optimize(saved, out, lora_rules, timer=slower)
    assert not result.changed
    assert result.refused
    assert "slower" in result.reason
    assert out.read_bytes() == saved.read_bytes()
    assert result.operators_after == result.operators_before
    assert result.rules == []
    assert result.proof is None


def test_no_gain_is_taken_only_with_fewer_operators(saved: Path, lora_rules: Path, tmp_path: Path) -> None:
    def same(original: object, candidate: object, feeds: Feeds, budget_s: float) -> Timing:
        return Timing(1.0, 1.0, 1.0, 0.99, 1.01, 1.0, 1.0, 9, "cpu")

    assert run_optimize(saved, tmp_path / "fast.onnx", lora_rules, timer=same).changed
    certified(tmp_path / "relu.rules", "Relu(a) = Relu(Relu(a)) @ a[_,_]\n")
    short = model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 2, 2)], [floats("y", 2, 2)])
    kept = run_optimize(short, None, tmp_path / "relu.rules", timer=same, finder=relu_twice)
    assert not kept.changed
    assert "no smaller" in kept.reason


def relu_twice(request: SearchRequest) -> FoundRewrites:
    """Applies the one rule at the model's output."""
    (rule,) = request.rules
    bindings = match(rule.lhs, request.model.outputs)
    assert bindings is not None
    step = Step(rule, rule.signatures[0], request.model.outputs)
    rewrite = Rewrite(request.model.outputs, (step,), instantiate(rule.rhs, bindings, "float"))
    (x,) = request.model.inputs
    return FoundRewrites((Trace((Application(rewrite, ((x, x),)),)),))


def two_regions() -> onnx.ModelProto:
    chain = lora(rank=16)
    for number in range(9):
        part = onnx.compose.add_prefix(lora(rank=16 if number < 4 else 8), f"{number}/")
        chain = onnx.compose.merge_models(chain, part, io_map=[(chain.graph.output[0].name, f"{number}/x")])
    return chain


def test_no_further_candidate_is_tried_when_the_time_is_over(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patient = run_optimize(two_regions(), None, lora_rules, timer=slower)
    monkeypatch.setattr(Pace, "left_s", 0.0)
    impatient = run_optimize(two_regions(), None, lora_rules, timer=slower)
    assert len(patient.refused) > len(impatient.refused) == 1  # the whole
    assert not impatient.changed


def test_second_candidate_is_tried(tmp_path: Path, lora_rules: Path) -> None:
    """Two regions, the whole refused once: the better one alone passes."""
    chain = two_regions()
    calls: list[int] = []

    def first_slower(original: object, candidate: object, feeds: Feeds, budget_s: float) -> Timing:
        calls.append(1)
        return timing(0.9 if len(calls) == 1 else 1.2)

    result = run_optimize(chain, tmp_path / "fast.onnx", lora_rules, timer=first_slower)
    assert result.changed
    assert len(result.refused) == 1
    assert result.operators_before["MatMul"] == 30
    assert 10 < result.operators_after["MatMul"] < 30
    assert "of" in result.reason


def test_wrong_outputs_are_refused(
    saved: Path, tmp_path: Path, lora_rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault after the proof (here: in folding) is caught by comparing outputs."""
    write = candidate_check.write_model

    def faulty(written: Model, origin: Any = None, **options: Any) -> onnx.ModelProto:
        proto = write(written, origin, **options)
        values = numpy_helper.to_array(proto.graph.initializer[0]) * np.float32(1.01)
        proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(values, proto.graph.initializer[0].name))
        return proto

    monkeypatch.setattr(candidate_check, "write_model", faulty)
    out = tmp_path / "fast.onnx"
    result = run_optimize(saved, out, lora_rules)
    assert not result.changed
    assert "outputs differ" in result.reason
    assert out.read_bytes() == saved.read_bytes()


def test_a_false_rule_is_refused_by_the_kernel(saved: Path, tmp_path: Path, lora_rules: Path) -> None:
    """Even where a search were to use it."""
    false = parse_rule("MatMul(a, b) = MatMul(b, a) @ a[_,_] b[_,_]")

    def lying(request: SearchRequest) -> FoundRewrites:
        found = search_model(request)
        steps = found.traces[0].applications[0].rewrite.steps
        for trace in found.traces:
            for application in trace.applications:
                rewrite = application.rewrite
                forged = tuple(Step(false, false.signatures[0], step.roots) for step in steps)
                changed = dataclasses.replace(application, rewrite=Rewrite(rewrite.before, forged, rewrite.after))
                return dataclasses.replace(found, traces=(Trace((changed,)),))
        raise AssertionError("nothing found")

    result = run_optimize(saved, tmp_path / "fast.onnx", lora_rules, finder=lying)
    assert not result.changed
    assert "the kernel does not accept it" in result.reason
    assert (tmp_path / "fast.onnx").read_bytes() == saved.read_bytes()


def test_a_region_that_is_not_in_the_model_is_refused(saved: Path, tmp_path: Path, lora_rules: Path) -> None:
    def misplaced(request: SearchRequest) -> FoundRewrites:
        found = search_model(request)
        application = found.traces[0].applications[0]
        other = optimize_terms(lora(size=32))
        leaves = tuple((leaf, other if leaf.op == "Var" else term) for leaf, term in application.leaves)
        return dataclasses.replace(found, traces=(Trace((Application(application.rewrite, leaves),)),))

    result = run_optimize(saved, tmp_path / "fast.onnx", lora_rules, finder=misplaced)
    assert not result.changed
    assert "the kernel does not accept it" in result.reason


def optimize_terms(proto: onnx.ModelProto) -> Any:
    return read_model(proto).outputs[0]
