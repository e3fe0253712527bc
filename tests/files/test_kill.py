"""A process killed while it writes leaves the old files or the new ones, complete, and never a mixture."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from superopt.files import TEMPORARY
from tests.support.paths import ROOT

KILLS = 5

MODELS = """
import numpy as np, sys
from onnx import TensorProto, helper, numpy_helper
from superopt.onnx_io import save_model

info = helper.make_tensor_value_info
def model(value):
    weights = [numpy_helper.from_array(np.full((256, 256), value, np.float32), name) for name in "ab"]
    nodes = [helper.make_node("MatMul", ["x", "a"], ["h"]), helper.make_node("MatMul", ["h", "b"], ["y"])]
    graph = helper.make_graph(nodes, f"g{value}", [info("x", 1, [1, 256])], [info("y", 1, [1, 256])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
value = 0
while True:
    value += 1
    save_model(model(value), sys.argv[1], limit=100)
    print(flush=True)
"""

FOLDERS = """
import sys
from pathlib import Path
from superopt.folders import write_files

folder, number = Path(sys.argv[1]), 0
while True:
    number += 1
    files = {f"{name}.rules": str(number).encode() for name in "abcdefgh"}
    stale = {f"only{number - 1}"} if number > 1 else set()
    write_files(folder, {**files, f"only{number}": b""}, stale, Path(f"{folder}.shards"))
    print(flush=True)
"""


def killed(script: str, target: Path, seconds: float) -> None:
    """Run `script` with `target` as its argument, and kill it some time after its first line."""
    with subprocess.Popen([sys.executable, "-c", script, str(target)], cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        time.sleep(seconds)
        process.kill()


def test_a_model_of_two_files(tmp_path: Path) -> None:
    out, rng = tmp_path / "out.onnx", random.Random(0)
    for _ in range(KILLS):
        killed(MODELS, out, rng.uniform(0, 0.1))
        value = float(onnx.load(out, load_external_data=False).graph.name.removeprefix("g"))
        session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
        (found,) = session.run(None, {"x": np.ones((1, 256), np.float32)})
        np.testing.assert_allclose(found, (256 * value) ** 2)
        # At most one file of weights and one temporary file stay, until the next process writes there.
        assert len(list(tmp_path.iterdir())) <= 4


@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot exchange folders")
def test_a_folder_of_files(tmp_path: Path) -> None:
    folder, rng = tmp_path / "rules", random.Random(0)
    for _ in range(KILLS):
        killed(FOLDERS, folder, rng.uniform(0, 0.1))
        contents = {path.name: path.read_text() for path in folder.iterdir()}
        number = contents["a.rules"]
        assert contents == {**{f"{name}.rules": number for name in "abcdefgh"}, f"only{number}": ""}
        assert list(folder.glob(TEMPORARY)) == []
        for path in folder.iterdir():  # the next process counts from 1 again
            path.unlink()
        folder.rmdir()
