"""`--target-opset`: the model at another version of the operator set, with the same outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from superopt.cli import optimize_main
from superopt.onnx_io import ModelError, read_model, write_model
from superopt.onnx_io.opset import NEWEST_OPSET, at_opset
from superopt.optimizer import Options, Result, conversion, optimize
from superopt.optimizer.source import Source
from tests.support.models import floats, lora, model


def opset(proto: onnx.ModelProto | None) -> int:
    assert proto is not None
    return next(one.version for one in proto.opset_import if one.domain == "")


def squeezes(version: int = 11) -> onnx.ModelProto:
    """Axes are attributes at opset 11 and inputs from 13 on; Softmax has another default axis."""
    nodes = [
        helper.make_node("Unsqueeze", ["x"], ["a"], axes=[0]),
        helper.make_node("ReduceSum", ["a"], ["b"], axes=[2], keepdims=1),
        helper.make_node("Sub", ["a", "b"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"], axis=2),
    ]
    return model(nodes, [floats("x", 3, 4)], [floats("y", 1, 3, 4)], opset=version)


def outputs(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {"x": x})[0]
    return found


def run(source: onnx.ModelProto | Path, rules: Path, out: Path | None = None, **options: object) -> Result:
    return optimize(source, out, ep="cpu", rules=rules, quick=True, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("wanted", [11, 12, 13, 17, 18, 21, NEWEST_OPSET])
def test_both_ways(lora_rules: Path, wanted: int) -> None:
    source, x = squeezes(), np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    newer = run(source, lora_rules, target_opset=wanted).proto
    assert opset(newer) == wanted and newer is not None
    onnx.checker.check_model(newer, full_check=True)
    older = run(newer, lora_rules, target_opset=11).proto
    assert opset(older) == 11 and older is not None
    assert {node.op_type: [a.name for a in node.attribute] for node in older.graph.node}["Unsqueeze"] == ["axes"]
    for proto in (newer, older) if wanted <= 21 else (older,):  # ONNX Runtime lags behind
        np.testing.assert_array_equal(outputs(proto, x), outputs(source, x))


def test_optimized_and_converted(tmp_path: Path, lora_rules: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    result = run(tmp_path / "model.onnx", lora_rules, tmp_path / "fast.onnx", target_opset=13)
    written = onnx.load(tmp_path / "fast.onnx")
    assert result.changed and opset(written) == 13 and len(written.graph.node) == 2
    assert result.model == str(tmp_path / "model.onnx") and any("converted to opset 13" in n for n in result.notices)


@pytest.mark.slow
def test_within_a_time_limit(tmp_path: Path, lora_rules: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    result = run(tmp_path / "model.onnx", lora_rules, tmp_path / "fast.onnx", target_opset=13, timeout=60.0)
    assert opset(onnx.load(tmp_path / "fast.onnx")) == opset(result.proto) == 13
    assert sum("converted to opset 13" in notice for notice in result.notices) == 1


def test_its_own_opset_changes_nothing(tmp_path: Path, lora_rules: Path) -> None:
    onnx.save(squeezes(), tmp_path / "model.onnx")
    result = run(tmp_path / "model.onnx", lora_rules, tmp_path / "same.onnx", target_opset=11)
    assert not result.changed and not result.notices
    assert (tmp_path / "same.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()


def test_what_the_opset_lacks_is_one_line(tmp_path: Path, lora_rules: Path) -> None:
    source = model([helper.make_node("Gelu", ["x"], ["y"])], [floats("x", 4)], [floats("y", 4)], opset=20)
    onnx.save(source, tmp_path / "model.onnx")
    arguments = [tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--quick", "--target-opset", 13]
    done = CliRunner().invoke(optimize_main.command, [*map(str, arguments), "--rules", str(lora_rules), "--ep", "cpu"])
    assert done.exit_code == 2 and done.stderr.count("\n") == 1 and not (tmp_path / "out.onnx").exists()
    assert "opset 13 with operators of ONNX only: it lacks Gelu" in done.stderr
    with_runtime = optimize(source, None, ep="cpu", rules=lora_rules, cost="analytic", budget=1.0, target_opset=13)
    assert with_runtime.operators_after == {"com.microsoft::Gelu": 1}
    power = helper.make_node("Mish", ["x"], ["y"])
    with pytest.raises(ModelError, match="cannot be written at opset 13: opset 13 has no Mish"):
        run(model([power], [floats("x", 4)], [floats("y", 4)], opset=18), lora_rules, target_opset=13)


def test_nodes_that_are_copied_must_have_the_same_form() -> None:
    """NonMaxSuppression has no definition here; between 11 and 21 it has not changed, from 10 to 11 it has."""
    boxes, scores = floats("boxes", 1, 5, 4), floats("scores", 1, 1, 5)
    found = helper.make_tensor_value_info("y", TensorProto.INT64, [None, 3])
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores"], ["y"], name="nms")
    source = read_model(model([node], [boxes, scores], [found], opset=11))
    assert opset(write_model(at_opset(source, 21))) == 21
    with pytest.raises(ModelError, match="NonMaxSuppression \\(node 'nms'\\) has another form at opset 10"):
        at_opset(source, 10)


def test_copied_nodes_whose_versions_differ_in_types_only() -> None:
    """Shape of a free size is copied, and so are the largest elements of a number that is an input."""
    x, number = floats("x", "n", 4), helper.make_tensor_value_info("k", TensorProto.INT64, [1])
    sizes = helper.make_tensor_value_info("sizes", TensorProto.INT64, [2])
    nodes = [helper.make_node("Shape", ["x"], ["sizes"]), helper.make_node("TopK", ["x", "k"], ["y", "indices"])]

    def at(version: int) -> onnx.ModelProto:
        outputs = [sizes, helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", None])]
        return model(nodes, [x, number], outputs, opset=version)

    for old, new in ((17, 24), (24, 17), (13, 21), (11, 13)):
        written = write_model(at_opset(read_model(at(old)), new))
        assert opset(written) == new and {node.op_type for node in written.graph.node} == {"Shape", "TopK"}
        onnx.checker.check_model(written, full_check=True)
    with pytest.raises(ModelError, match="Shape has another form at opset 13"):  # it may have an attribute `start`
        at_opset(read_model(at(17)), 13)


def test_an_operator_that_the_wanted_opset_lacks() -> None:
    positions = helper.make_tensor_value_info("p", TensorProto.INT64, [1, 5])
    node = helper.make_node("RotaryEmbedding", ["x", "c", "c", "p"], ["y"])
    inputs = [floats("x", 1, 2, 5, 4), floats("c", 9, 2), positions]
    with pytest.raises(ModelError, match="RotaryEmbedding does not exist at opset 17"):
        at_opset(read_model(model([node], inputs, [floats("y", 1, 2, 5, 4)], opset=23)), 17)


def test_bodies_of_control_flow() -> None:
    def branch(name: str, op: str) -> onnx.GraphProto:
        return helper.make_graph([helper.make_node(op, ["x"], ["z"])], name, [], [floats("z", 3)])

    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])

    def choice(op: str, version: int) -> onnx.ModelProto:
        node = helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "Neg"), else_branch=branch("b", op))
        return model([node], [condition, floats("x", 3)], [floats("y", 3)], opset=version)

    def unread(proto: onnx.ModelProto) -> onnx.ModelProto:
        proto.ir_version = 3  # where constants would be inputs of the bodies' models
        return proto

    written = write_model(at_opset(read_model(choice("Floor", 13)), 17))
    assert opset(written) == 17
    onnx.checker.check_model(written, full_check=True)
    for op, old, new in (("Floor", 17, 13), ("Abs", 12, 17)):  # between these, words have changed
        written = write_model(at_opset(read_model(choice(op, old)), new))
        assert opset(written) == new
        onnx.checker.check_model(written, full_check=True)
    with pytest.raises(
        ModelError, match=r"Softmax in a body of If has another form .* and this body is copied as it is"
    ):
        at_opset(read_model(unread(choice("Softmax", 11))), 13)


@pytest.mark.parametrize("nested", [False, True])
def test_bodies_with_other_forms_are_converted(nested: bool) -> None:
    """The axes of ReduceMean are an attribute up to 17, and an input from 18 on."""
    means = helper.make_graph([helper.make_node("ReduceMean", ["x"], ["z"], axes=[1])], "m", [], [floats("z", 3, 1)])
    sums = helper.make_graph([helper.make_node("ReduceSum", ["x"], ["s"], axes=[1])], "s", [], [floats("s", 3, 1)])
    if nested:
        inner = helper.make_node("If", ["c"], ["t"], then_branch=sums, else_branch=means)
        sums = helper.make_graph([inner], "n", [], [floats("t", 3, 1)])
    node = helper.make_node("If", ["c"], ["y"], then_branch=sums, else_branch=means)
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    source = model([node], [condition, floats("x", 3, 4)], [floats("y", 3, 1)], opset=11)
    written = write_model(at_opset(Source(source).terms, 21))
    assert opset(written) == 21
    onnx.checker.check_model(written, full_check=True)
    for chosen in (False, True):
        feeds = {"c": np.array(chosen), "x": np.arange(12, dtype=np.float32).reshape(3, 4)}
        found = [
            onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
            for one in (source, written)
        ]
        np.testing.assert_array_equal(*found)


def test_other_outputs_are_an_error(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(*arguments: object, **options: object) -> onnx.ModelProto:
        written = write_model(*arguments, **options)  # type: ignore[arg-type]
        written.graph.node[-1].op_type = "Sigmoid"
        del written.graph.node[-1].attribute[:]
        return written

    monkeypatch.setattr(conversion, "write_model", spoiled)
    with pytest.raises(ModelError, match="converted to opset 13, the model has other outputs"):
        run(squeezes(), lora_rules, target_opset=13)


@pytest.mark.parametrize("version", [0, 6, NEWEST_OPSET + 1])
def test_there_is_no_such_opset(version: int) -> None:
    with pytest.raises(ValueError, match="opset must be 7 to"):
        Options(target_opset=version)
