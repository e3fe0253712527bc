"""`scripts/measure_cuda.py` from end to end on the CPU, and its parts that no machine decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from scripts.gpu.float16 import is_float16
from superopt.runtime import RuntimeUnavailable, resolve_target
from superopt.search.cost.device import read_device
from tests.support.models import lora
from tests.support.paths import ROOT

SCRIPT = ROOT / "scripts" / "measure_cuda.py"


def run(*arguments: object, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_dry_run_from_end_to_end(tmp_path: Path, lora_rules: Path) -> None:
    models, out = tmp_path / "models", tmp_path / "found.json"
    models.mkdir()
    onnx.save(lora(), models / "a.onnx")
    half = lora()
    for value in (*half.graph.input, *half.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    for weight in half.graph.initializer:
        array = onnx.numpy_helper.to_array(weight).astype(np.float16)
        weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
    onnx.save(half, models / "b.onnx")
    command = (models, "-o", out, "--ep", "cpu", "--dry", "--rules", lora_rules)
    assert run(*command, "--minutes", "0.001", cache=tmp_path).returncode == 1
    assert json.loads(out.read_text(encoding="utf-8"))["not_reached"] == ["a", "a.fp16", "b"]
    done = run(*command, cache=tmp_path)  # the same command completes what the budget has cut
    assert done.returncode in (0, 1), done.stderr  # 1: a tiny measurement may find a result slower
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["tests"]["exit_code"] == 0, found["tests"]
    assert found["not_reached"] == []
    assert found["models"].keys() == {"a", "a.fp16", "b"}
    for one in found["models"].values():
        (contest,) = one["benchmark"]["contests"]
        assert [(row["contestant"], row["status"]) for row in contest["rows"]] == [
            ("ONNX Runtime", "ok"),
            ("superopt", "ok"),
        ]
        assert all(row["speeds"].keys() == {"cpu", "wall"} for row in contest["rows"])
    for precision, count in (("fp32", 1), ("fp16", 2)):
        figures = found["summary"][precision]["superopt"]["wall"]
        assert figures["models"] == count
        assert min(figures.values()) > 0
    device = read_device(out.with_suffix(".toml"))
    assert device.provider == "cpu"
    assert 0 <= found["device"]["measured"] <= found["device"]["probes"]

    assert run(*command, cache=tmp_path).returncode == done.returncode
    again = json.loads(out.read_text(encoding="utf-8"))
    assert again == found  # nothing is measured twice


def test_what_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    model, out = tmp_path / "a.onnx", tmp_path / "found.json"
    onnx.save(lora(), model)
    out.write_text("{}", encoding="utf-8")
    cases = [
        ((model, "-o", out, "--ep", "cpu", "--dry"), "name another one"),
        ((tmp_path / "none.onnx", "-o", tmp_path / "b.json"), "no such file"),
        ((model, "-o", tmp_path / "none" / "b.json", "--ep", "cpu", "--dry"), "none"),
    ]
    try:
        resolve_target("cuda")
    except RuntimeUnavailable:
        cases.append(((model, "-o", tmp_path / "c.json"), "CUDA"))
    for arguments, said in cases:
        done = run(*arguments, cache=tmp_path / "cache")
        assert done.returncode == 2
        assert said in done.stderr and done.stderr.count("\n") == 1
    assert out.read_text(encoding="utf-8") == "{}"
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"a.onnx", "found.json"}


def test_half_precision_is_told_by_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = lora()
    onnx.save(model, path)
    assert not is_float16(path)
    for weight in model.graph.initializer[:1]:
        weight.CopyFrom(onnx.numpy_helper.from_array(np.zeros((64, 64), np.float16), weight.name))
    onnx.save(model, path)
    assert is_float16(path)
