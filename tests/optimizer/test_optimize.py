"""What is written, and what stands beside it; refusals have a file of their own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

import superopt
from superopt.files import OutputError
from superopt.ir.notation import parse_rule
from superopt.onnx_io import ModelError
from superopt.optimizer import Result
from superopt.optimizer.model_search import FoundRewrites, SearchRequest
from superopt.rulebook.loading import load_rules
from superopt.runtime import InputError
from tests.support.certified import certified
from tests.support.models import LORA_RULES, floats, lora, model, weights
from tests.support.optimizing import run_optimize
from tests.support.timers import faster, slower


def outputs(path: Path | onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    source = path.SerializeToString() if isinstance(path, onnx.ModelProto) else str(path)
    return ort.InferenceSession(source, providers=["CPUExecutionProvider"]).run(None, feeds)  # type: ignore[no-any-return]


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
