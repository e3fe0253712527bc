"""`superopt.simplify(model) -> (model, ok)`, and results that replace the model's own file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper, parser

import superopt
from superopt.cli import optimize_main
from superopt.files import OutputError
from superopt.optimizer import candidate_check
from tests.support.models import floats, lora, model


def test_a_model_in_memory_and_in_a_file(tmp_path: Path, lora_rules: Path) -> None:
    source = lora()
    before = source.SerializeToString()
    onnx.save(source, tmp_path / "model.onnx")
    for given in (source, tmp_path / "model.onnx", str(tmp_path / "model.onnx")):
        simple, ok = superopt.simplify(given, rules=lora_rules, ep="cpu")
        assert ok and [node.op_type for node in simple.graph.node] == ["MatMul", "Relu"]
        onnx.checker.check_model(simple, full_check=True)
    assert source.SerializeToString() == before


def test_nothing_to_do_is_ok(tmp_path: Path, lora_rules: Path) -> None:
    source = model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 4)], [floats("y", 4)])
    assert superopt.simplify(source, rules=lora_rules, ep="cpu") == (source, True)
    onnx.save(source, tmp_path / "model.onnx")
    assert superopt.simplify(tmp_path / "model.onnx", rules=lora_rules, ep="cpu") == (source, True)


def test_computed_targets_alone_are_worth_it(lora_rules: Path) -> None:
    """No rule is used: the sizes of the heads are numbers, and what computed them goes."""
    source = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]> g (float[b, s, 6] x) => (float[b, s, 2, 3] y)
        <int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}, int64[2] heads = {2, 3}> {
          p = Shape(x) c = Gather(p, zero) d = Unsqueeze(c, axis) q = Shape(x) e = Gather(q, one) f = Unsqueeze(e, axis)
          t = Concat<axis = 0>(d, f, heads) z = Reshape(x, t) y = Relu(z) }
    """)
    simple, ok = superopt.simplify(source, rules=lora_rules, ep="cpu")
    assert ok and [node.op_type for node in simple.graph.node] == ["Reshape", "Relu"]
    onnx.checker.check_model(simple, full_check=True)


def test_what_cannot_be_compared_stays(lora_rules: Path) -> None:
    source = lora()
    source.graph.node.append(helper.make_node("Unheard", ["y"], ["z"], domain="nobody"))
    source.opset_import.append(helper.make_opsetid("nobody", 1))
    source.graph.output.append(floats("z"))
    simple, ok = superopt.simplify(source, rules=lora_rules, ep="cpu")
    assert simple is source and not ok


def test_what_is_refused_stays(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(*arguments: object, **options: object) -> onnx.ModelProto:
        written = write(*arguments, **options)  # type: ignore[arg-type]
        written.graph.node[-1].op_type = "Sigmoid"
        return written

    write = candidate_check.write_model
    monkeypatch.setattr(candidate_check, "write_model", spoiled)
    source = lora()
    simple, ok = superopt.simplify(source, rules=lora_rules, ep="cpu")
    assert simple is source and not ok


def test_weights_in_another_file_come_with_an_unchanged_model(tmp_path: Path, lora_rules: Path) -> None:
    source = model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 4)], [floats("y", 4)])
    source.graph.initializer.append(numpy_helper.from_array(np.ones(4096, np.float32), "w"))
    source.graph.node[0].input[0] = "sum"
    source.graph.node.insert(0, helper.make_node("Sub", ["x", "w"], ["sum"]))
    source.graph.input[0].CopyFrom(floats("x", 4096))
    source.graph.output[0].CopyFrom(floats("y", 4096))
    onnx.save(source, tmp_path / "model.onnx", save_as_external_data=True, size_threshold=0)
    simple, ok = superopt.simplify(tmp_path / "model.onnx", rules=lora_rules, ep="cpu")
    assert ok and len(simple.graph.initializer[0].raw_data) == 4 * 4096


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(optimize_main.command, list(map(str, arguments)))
    return done.exit_code, done.stderr


def test_in_place_only_when_asked(tmp_path: Path, lora_rules: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(lora(), path)
    before = path.read_bytes()
    common = ("--quick", "--ep", "cpu", "--rules", lora_rules)
    assert run(path, *common)[0] == 2
    code, said = run(path, "-o", path, *common)
    assert code == 2 and "cannot be both the result and the model" in said and path.read_bytes() == before
    assert run(path, "-o", path, "--in-place", *common)[0] == 2
    assert path.read_bytes() == before
    with pytest.raises(OutputError):
        superopt.optimize(path, path, rules=lora_rules, quick=True)
    assert run(path, "--in-place", *common)[0] == 0
    assert len(onnx.load(path).graph.node) == 2


def test_weights_that_the_result_no_longer_reads_are_named(tmp_path: Path, lora_rules: Path) -> None:
    path, weights = tmp_path / "model.onnx", tmp_path / "weights.bin"
    onnx.save(lora(), path, save_as_external_data=True, location=weights.name, size_threshold=0)
    before = weights.read_bytes()
    code, said = run(path, "--in-place", "--quick", "--ep", "cpu", "--rules", lora_rules)
    assert code == 0 and "no longer reads weights.bin" in said and weights.read_bytes() == before


def test_in_place_may_be_nothing_else(tmp_path: Path, lora_rules: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(lora(), path)
    before = path.read_bytes()
    common = ("--in-place", "--quick", "--ep", "cpu", "--rules", lora_rules)
    for other in (("--trace", path), ("--report", path)):
        code, said = run(path, *common, *other)
        assert code == 2 and "cannot be both" in said and path.read_bytes() == before


def test_an_original_that_is_kept_is_not_touched(tmp_path: Path, lora_rules: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 4)], [floats("y", 4)]), path)
    before = path.stat()
    assert run(path, "--in-place", "--quick", "--ep", "cpu", "--rules", lora_rules)[0] == 0
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
