"""The promise: what is written is proven, right and not slower; otherwise the original, unchanged."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import superopt
from superopt.files import OutputError
from superopt.ir.notation import parse_rule
from superopt.ir.pattern import instantiate, match
from superopt.ir.trace import Application, Rewrite, Step, Trace
from superopt.onnx_io import Model, ModelError, read_model
from superopt.optimizer import Result, candidate_check, optimize
from superopt.optimizer.model_search import FoundRewrites, SearchRequest, search_model
from superopt.optimizer.pace import Pace
from superopt.rulebook.loading import load_rules
from superopt.runtime import Feeds, InputError, Timing
from tests.support.certified import certified
from tests.support.models import LORA_RULES, floats, lora, model, weights

Source = bytes | Path


def timing(ratio: float) -> Timing:
    return Timing(ratio, 1.0, ratio, ratio, ratio, ratio, 1.0, 9, "cpu")


def faster(original: Source, candidate: Source, feeds: Feeds, budget_s: float) -> Timing:
    return timing(1.5)


def slower(original: Source, candidate: Source, feeds: Feeds, budget_s: float) -> Timing:
    return timing(0.8)


def run_optimize(source: Any, out: Path | None, rules: Path, **options: Any) -> Result:
    # Costs are the analytic ones: what is found must not depend on what else this machine does.
    given = {"ep": "cpu", "rules": rules, "budget": 60.0, "timer": faster, "cost": "analytic"}
    return optimize(source, out, **{**given, **options})


def outputs(path: Path | onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    source = path.SerializeToString() if isinstance(path, onnx.ModelProto) else str(path)
    return ort.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, feeds)  # type: ignore[no-any-return]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    onnx.save(lora(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_branches_become_one_matmul(saved: Path, tmp_path: Path, lora_rules: Path) -> None:
    out = tmp_path / "fast.onnx"
    result = run_optimize(saved, out, lora_rules)
    assert result.changed, result
    assert (result.operators_before["MatMul"], result.operators_after) == (3, {"MatMul": 1, "Relu": 1})
    assert result.latency is not None
    assert result.latency.ratio == 1.5
    assert result.difference is not None
    assert result.difference.relative <= result.difference.tolerance < 1e-4
    assert result.proof is not None
    assert result.proof.steps == sum(use.count for use in result.rules) >= 2
    x = np.random.default_rng(5).standard_normal((16, 64)).astype(np.float32)
    np.testing.assert_allclose(outputs(out, {"x": x})[0], outputs(saved, {"x": x})[0], rtol=1e-4, atol=1e-4)


def test_what_became_of_the_rules_is_told_where_it_is_asked_for(saved: Path, tmp_path: Path, lora_rules: Path) -> None:
    silent = run_optimize(saved, None, lora_rules)
    assert silent.changed and not silent.attempts
    result = run_optimize(saved, None, lora_rules, explain=True)
    used = {one.id: one.used for one in result.attempts if one.used}
    assert sum(used.values()) == sum(rule.count for rule in result.rules)
    assert all(one.matched >= 0 and one.tried >= one.used > 0 for one in result.attempts if one.used)
    assert json.loads(result.to_json())["attempts"][0]["saved_ms"] > 0


def test_library_call_with_a_model_in_memory(lora_rules: Path) -> None:
    result = superopt.optimize(lora(), ep="cpu", rules=lora_rules, cost="analytic", timer=faster)
    assert isinstance(result, superopt.Result)
    assert result.changed
    assert result.out is None
    assert result.proto is not None
    assert [node.op_type for node in result.proto.graph.node] == ["MatMul", "Relu"]


def test_dynamic_sizes_stay_dynamic(tmp_path: Path, lora_rules: Path) -> None:
    result = run_optimize(lora("batch"), tmp_path / "fast.onnx", lora_rules, shapes={"x": (8, 64)})
    assert result.changed
    written = onnx.load(tmp_path / "fast.onnx")
    assert written.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    for batch in (1, 3):
        x = np.ones((batch, 64), np.float32)
        np.testing.assert_allclose(
            outputs(written, {"x": x})[0], outputs(lora("batch"), {"x": x})[0], rtol=1e-4, atol=1e-4
        )


def test_unknown_sizes_are_measured_at_one_and_said_so(lora_rules: Path) -> None:
    result = run_optimize(lora("batch"), None, lora_rules)
    assert any("sizes were measured at batch = 1, " in notice for notice in result.notices)


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
    def same(original: Source, candidate: Source, feeds: Feeds, budget_s: float) -> Timing:
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

    def first_slower(original: Source, candidate: Source, feeds: Feeds, budget_s: float) -> Timing:
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


def test_nothing_found_keeps_the_bytes(tmp_path: Path, lora_rules: Path) -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 2)], [floats("y", 2)])
    onnx.save(proto, tmp_path / "model.onnx")
    result = run_optimize(tmp_path / "model.onnx", tmp_path / "out.onnx", lora_rules)
    assert not result.changed
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()


def test_the_model_is_never_replaced(saved: Path, tmp_path: Path, lora_rules: Path) -> None:
    before = saved.read_bytes()
    (tmp_path / "link.onnx").symlink_to(saved)
    (tmp_path / "hard.onnx").hardlink_to(saved)
    for same in (saved, tmp_path / "link.onnx", tmp_path / "hard.onnx", tmp_path / "." / saved.name):
        with pytest.raises(OutputError, match="cannot be both the result and the model"):
            run_optimize(saved, same, lora_rules)
        with pytest.raises(OutputError, match="cannot be both the trace and the model"):
            run_optimize(saved, tmp_path / "fast.onnx", lora_rules, trace=same)
    assert saved.read_bytes() == before
    assert not (tmp_path / "fast.onnx").exists()


def test_kept_original_brings_its_external_weights(tmp_path: Path, lora_rules: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    target.mkdir()
    onnx.save_model(lora(), source / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    result = run_optimize(source / "model.onnx", target / "out.onnx", lora_rules, timer=slower)
    assert not result.changed
    x = np.ones((16, 64), np.float32)
    np.testing.assert_array_equal(
        outputs(target / "out.onnx", {"x": x})[0], outputs(source / "model.onnx", {"x": x})[0]
    )


@pytest.mark.parametrize("whole", [True, False], ids=["model and weights", "model only"])
@pytest.mark.parametrize("target", ["links", "blobs"])
def test_kept_original_finds_its_weights_beside_links(
    tmp_path: Path, lora_rules: Path, whole: bool, target: str
) -> None:
    """The model is a link into another folder, as in caches; its weights are beside the link, or links themselves."""
    links, blobs = tmp_path / "links", tmp_path / "blobs"
    links.mkdir()
    blobs.mkdir()
    onnx.save_model(lora(), blobs / "model.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    (links / "model.onnx").symlink_to("../blobs/model.onnx")
    if whole:
        os.rename(blobs / "w.bin", blobs / "0123")
        (links / "w.bin").symlink_to("../blobs/0123")
    else:
        os.rename(blobs / "w.bin", links / "w.bin")
    out = tmp_path / target / "out.onnx"
    assert not run_optimize(links / "model.onnx", out, lora_rules, timer=slower).changed
    x = np.ones((16, 64), np.float32)
    np.testing.assert_array_equal(outputs(out, {"x": x})[0], outputs(links / "model.onnx", {"x": x})[0])


def test_a_failing_write_leaves_nothing(saved: Path, tmp_path: Path, lora_rules: Path) -> None:
    """Neither a part of the new file, nor a changed old one, nor a temporary one."""
    out = tmp_path / "fast.onnx"
    out.write_bytes(b"old")
    real = os.replace

    def broken(source: Any, target: Any) -> None:
        raise OSError(28, "No space left on device", str(target))

    for timer in (faster, slower):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", broken)
            with pytest.raises((OSError, ModelError), match="No space left"):
                run_optimize(saved, out, lora_rules, timer=timer)
    assert os.replace is real
    assert out.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir() if "lora." not in path.name) == ["fast.onnx", "model.onnx"]


def test_same_seed_same_bytes(saved: Path, tmp_path: Path, lora_rules: Path) -> None:
    first = run_optimize(saved, tmp_path / "1.onnx", lora_rules, seed=3)
    second = run_optimize(saved, tmp_path / "2.onnx", lora_rules, seed=3)
    assert first.changed
    assert (tmp_path / "1.onnx").read_bytes() == (tmp_path / "2.onnx").read_bytes()
    assert first.rules == second.rules


def test_json_and_trace(saved: Path, tmp_path: Path, lora_rules: Path) -> None:
    result = run_optimize(saved, tmp_path / "fast.onnx", lora_rules, trace=tmp_path / "trace.json")
    data = json.loads(result.to_json())
    assert data["schema_version"] == 2
    assert data["changed"] is True
    assert data["latency"]["ratio"] == 1.5
    assert "proto" not in data
    trace = json.loads((tmp_path / "trace.json").read_text())
    steps = [step for rewrite in trace["rewrites"] for step in rewrite["steps"]]
    assert len(steps) == data["proof"]["steps"]
    assert {step["id"] for step in steps} == {use["id"] for use in data["rules"]}
    listed = {rule.id for rule in load_rules(lora_rules)}
    for step in steps:
        parse_rule(step["rule"] + " @ " + step["signature"])
        assert step["id"] in listed


def test_rules_have_the_ids_of_the_files_in_whatever_form_they_were_applied(saved: Path, tmp_path: Path) -> None:
    """Rules are found in a list and left out by these ids, and what they made is named after them."""
    sides = [line.partition(" @")[0].split(" = ") for line in LORA_RULES.splitlines()]
    text = "".join(f"{right} = {left} @ a[_,_] b[_,_] c[_,_]\n" for left, right in sides)
    backwards = certified(tmp_path / "backwards.rules", text)
    result = run_optimize(saved, None, backwards, explain=True)
    assert {use.id for use in result.rules} == {rule.id for rule in load_rules(backwards)}
    assert {one.id: one.used for one in result.attempts} == {use.id: use.count for use in result.rules}
    merging = next(use for use in result.rules if use.left.startswith("Add("))
    assert merging.made
    without = run_optimize(saved, None, backwards, skip_rules=[merging.id])
    assert merging.id not in {use.id for use in without.rules}


def test_infinite_differences_are_still_json() -> None:
    result = Result("m", None, False, "", "cpu", 1, 0, {}, {}, cost_before_ms=float("inf"))
    assert json.loads(result.to_json())["cost_before_ms"] is None


def test_a_model_that_cannot_run_is_kept(tmp_path: Path, lora_rules: Path) -> None:
    node = helper.make_node("Mystery", ["x"], ["y"], domain="com.example")
    proto = model([node], [floats("x", 2)], [floats("y", 2)])
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    onnx.save(proto, tmp_path / "model.onnx")
    result = run_optimize(tmp_path / "model.onnx", tmp_path / "out.onnx", lora_rules, cost="measured")
    assert not result.changed
    assert "the original cannot be run" in result.reason
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()


def test_indices_get_valid_values(tmp_path: Path, lora_rules: Path) -> None:
    """Token numbers into a table with two rows."""
    proto = model(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [5])],
        [floats("y", 5, 4)],
        [("table", weights(2, 4))],
    )
    assert "found nothing" in run_optimize(proto, None, lora_rules).reason


def test_unusable_shape(lora_rules: Path) -> None:
    with pytest.raises(InputError, match="x"):
        run_optimize(lora("batch"), None, lora_rules, shapes={"x": (2, 3, 4)})


def test_the_search_hears_of_the_shapes(lora_rules: Path) -> None:
    heard: list[SearchRequest] = []

    def listen(request: SearchRequest) -> FoundRewrites:
        heard.append(request)
        return FoundRewrites()

    run_optimize(lora("batch"), None, lora_rules, shapes={"x": (48, 64)}, finder=listen)
    assert [request.model.sizes for request in heard] == [{"batch": 48}]
