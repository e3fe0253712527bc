"""Originals that cannot be run: optimized by proofs where costs need no run, else kept with advice that works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from superopt.optimizer import Result, candidate_check, optimize
from superopt.runtime import CannotRun
from tests.support.function_models import DOUBLING, calling
from tests.support.models import floats, lora, model


def optimized(proto: onnx.ModelProto, rules: Path, **options: Any) -> Result:
    return optimize(proto, **{"ep": "cpu", "rules": rules, "budget": 5.0, "cost": "analytic", **options})


def custom() -> onnx.ModelProto:
    """Like `lora`, after an operator that no provider has."""
    proto = lora("batch")
    proto.graph.node.insert(0, helper.make_node("Mystery", ["in"], ["x"], domain="com.example"))
    del proto.graph.input[:]
    proto.graph.input.append(floats("in", "batch", 64))
    proto.graph.value_info.append(floats("x", "batch", 64))
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    return proto


def of_sequence() -> onnx.ModelProto:
    """Like `lora`, on the first tensor of a sequence."""
    proto = lora(16)
    proto.graph.node.insert(0, helper.make_node("SequenceAt", ["in", "first"], ["x"]))
    proto.graph.initializer.append(numpy_helper.from_array(np.array(0), "first"))
    del proto.graph.input[:]
    proto.graph.input.append(helper.make_tensor_sequence_value_info("in", 1, [16, 64]))
    return proto


def multiple_of_three() -> onnx.ModelProto:
    proto = model([helper.make_node("Reshape", ["x", "s"], ["y"])], [floats("x", "n")], [floats("y", "k", 3)])
    proto.graph.initializer.append(numpy_helper.from_array(np.array([-1, 3]), "s"))
    return proto


def without_outputs() -> onnx.ModelProto:
    return model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 2)], [])


def of_sizes_that_do_not_fit() -> onnx.ModelProto:
    constants = [("w", np.ones((4, 3), np.float32))]
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], [floats("x", 2, 3)], [floats("y", 2, 3)], constants)


def with_no_operator_of_onnx() -> onnx.ModelProto:
    return model([helper.make_node("Mystery", ["x"], ["y"])], [floats("x", 2)], [floats("y", 2)])


def of_a_type_without_kernels() -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.BFLOAT16, [2]) for name in "xy"]
    return model([helper.make_node("Erf", ["x"], ["y"])], values[:1], values[1:])


def of_an_opset_to_come() -> onnx.ModelProto:
    proto = lora(16)
    proto.opset_import[0].version = 99
    return proto


@pytest.mark.parametrize("make", [custom, of_sequence])
def test_with_analytic_costs_it_is_optimized_and_says_what_was_not_checked(make: Any, lora_rules: Path) -> None:
    result = optimized(make(), lora_rules)
    assert result.changed and result.operators_after["MatMul"] == 1
    assert result.reason == "all rewrites, not compared and not timed"
    assert result.difference is None and result.latency is None and result.proof is not None
    assert any("so outputs are not compared and nothing is timed" in notice for notice in result.notices)


def test_a_quick_run_optimizes_it_as_well(lora_rules: Path) -> None:
    result = optimized(of_sequence(), lora_rules, cost="measured", quick=True)
    assert result.changed and result.reason == "all rewrites, not compared and not timed"


@pytest.mark.parametrize(
    ("make", "help_"),
    [
        (custom, "another --ep or --target may have its operators; --cost analytic"),
        (of_a_type_without_kernels, "another --ep or --target may have its operators; --cost analytic"),
        (of_sequence, "--cost analytic"),
        (multiple_of_three, "--inputs FILE.npz gives values that it takes, --shape other sizes"),
    ],
)
def test_with_measured_costs_it_is_kept_with_the_option_that_helps(make: Any, help_: str, lora_rules: Path) -> None:
    result = optimized(make(), lora_rules, cost="measured")
    assert not result.changed and "the original cannot be run here" in result.reason and help_ in result.reason
    assert "onnxruntime_src" not in result.reason  # where ONNX Runtime's C++ source raised the error


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (without_outputs, "At least one output should be requested"),
        (of_sizes_that_do_not_fit, "Incompatible dimensions for matrix multiplication"),
        (with_no_operator_of_onnx, "No Op registered for Mystery with domain_version of"),
        (of_an_opset_to_come, " : FAIL : ONNX Runtime only *guarantees* support for models stamped with official"),
    ],
)
def test_there_is_no_advice_where_no_option_helps(make: Any, problem: str, lora_rules: Path) -> None:
    reason = optimized(make(), lora_rules, cost="measured").reason
    assert problem in reason
    assert reason.count("; ") == 1 and reason.endswith(
        "; --cost analytic optimizes it by proven rules without running it"
    )
    assert ".;" not in reason


def test_a_model_that_the_runtime_would_expand_for_hours_is_not_run(lora_rules: Path) -> None:
    result = optimized(calling(*DOUBLING), lora_rules, cost="measured")
    assert not result.changed and "its functions stand for more than" in result.reason


def test_the_advice_works(lora_rules: Path) -> None:
    assert "cannot be run" not in optimized(multiple_of_three(), lora_rules, shapes={"x": (6,)}).reason


def test_a_result_that_does_not_load_is_refused_if_the_original_does(
    lora_rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CannotRun("no")

    monkeypatch.setattr(candidate_check, "open_session", refuse)
    result = optimized(of_sequence(), lora_rules)
    assert not result.changed and "does not run it: no" in result.reason
