"""Portable output: operators of ONNX only, and weights in a file of their own."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import helper

from superopt.cli import optimize_main
from superopt.ir.infer import make
from superopt.ir.term import CLOSED_FORM
from superopt.onnx_io import is_standard, save_model
from superopt.onnx_io.nodes.exporting import is_writable
from superopt.onnx_io.save import NOTHING_INLINE
from superopt.optimizer import Options, Result, optimize
from tests.support.certified import certified
from tests.support.models import floats, lora, model, weights
from tests.support.timers import faster

FUSED = "MatMul(Transpose[perm=[1, 0]](a), b) = FusedMatMul[alpha=1.0, transA=1, transB=0](a, b) @ a[_,_] b[_,_]\n"


def product() -> onnx.ModelProto:
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["t", "w"], ["y"])]
    return model(nodes, [floats("x", 256, 256)], [floats("y", 256, 256)], [("w", weights(256, 256))])


def run(source: onnx.ModelProto, rules: Path, **options: object) -> Result:
    given = {"ep": "cpu", "rules": rules, "budget": 2.0, "timer": faster, "cost": "analytic", **options}
    return optimize(source, None, **given)  # type: ignore[arg-type]


def domains(result: Result) -> set[str]:
    assert result.proto is not None
    return {node.domain for node in result.proto.graph.node} | {one.domain for one in result.proto.opset_import}


def test_no_function_of_one_runtime(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", FUSED)
    assert domains(run(product(), rules)) == {"", "com.microsoft"}
    kept = run(product(), rules, domains="onnx")
    assert not kept.changed and domains(kept) == {""}
    assert not run(product(), rules, quick=True).changed


def test_what_the_model_has_stays(tmp_path: Path, lora_rules: Path) -> None:
    source = lora()
    source.graph.node.append(helper.make_node("FastGelu", ["y"], ["z"], domain="com.microsoft"))
    source.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    source.graph.output.append(floats("z", 16, 64))
    result = run(source, lora_rules, domains="onnx")
    assert result.changed and "com.microsoft::FastGelu" in result.operators_after


def test_standard_operators() -> None:
    assert all(map(is_standard, ("MatMul", "Gelu", "Sum", "an unknown one", *CLOSED_FORM)))
    assert all(map(is_standard, ("PadCopy", "ResizeLinear")))  # written as Pad and Resize
    assert not any(map(is_standard, ("FusedMatMul", "SkipLayerNormalization", "SimplifiedLayerNormalization")))


@pytest.mark.parametrize("opset", [7, 13, 23])
def test_constants_in_closed_form_can_be_written_everywhere(opset: int) -> None:
    """Nearly all rules that fold into weights have such constants."""
    constant = make("Zeros", (), {"shape": (2, 3)})
    assert is_writable(constant, opset) and is_writable(constant, opset, standard=True)


def test_an_unknown_choice() -> None:
    with pytest.raises(ValueError, match="unknown choice of domains 'mine'"):
        Options(domains="mine")


@pytest.mark.parametrize("changes", [True, False])
def test_weights_in_a_file_of_their_own(tmp_path: Path, lora_rules: Path, changes: bool) -> None:
    source = lora() if changes else product()
    onnx.save(source, tmp_path / "model.onnx")
    arguments = [tmp_path / "model.onnx", "-o", tmp_path / "fast.onnx", "--external-data", "--quick"]
    arguments += ["--rules", lora_rules, "--ep", "cpu"]
    done = CliRunner().invoke(optimize_main.command, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    (data,) = tmp_path.glob("fast.onnx.*.data")
    assert data.stat().st_size >= 4 * 64 * 64 and (tmp_path / "fast.onnx").stat().st_size < 4096
    assert (len(onnx.load(tmp_path / "fast.onnx").graph.node) < len(source.graph.node)) is changes
    onnxruntime.InferenceSession(str(tmp_path / "fast.onnx"), providers=["CPUExecutionProvider"])


def test_no_file_without_weights(tmp_path: Path) -> None:
    source = model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 4)], [floats("y", 4)])
    save_model(source, tmp_path / "model.onnx", NOTHING_INLINE)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
