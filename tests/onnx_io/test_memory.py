"""Small files that describe huge tensors: reading and writing stay within a stated amount of memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.onnx_io import ModelError, read_simplified
from superopt.onnx_io.inference_process import infer

node = helper.make_node
MANY = 60_000
LIMIT_KIB = 1 << 20
# Prints the largest memory in KiB up to then, after each model. (ru_maxrss would include the memory of the process
# that starts this one.)
READ_ALL = """
import re, resource, sys
from pathlib import Path
from superopt.onnx_io import read_simplified, write_model
for path in sys.argv[1:]:
    assert write_model(read_simplified(path)).graph.node[-1].op_type == "Add", path
    own = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
    print(path, own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, sep="\\t")
"""


def ints(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def reals(name: str, shape: tuple[int, ...], value: float = 1.5) -> TensorProto:
    return numpy_helper.from_array(np.full(shape, value, np.float32), name)


CASES: dict[str, tuple[list[onnx.NodeProto], list[TensorProto]]] = {
    "ConstantOfShape": ([node("ConstantOfShape", ["s"], ["z"])], [ints("s", MANY, MANY)]),
    "Expand": ([node("Expand", ["c", "s"], ["z"])], [ints("s", MANY, MANY), reals("c", (1,))]),
    "Expand and sum": (
        [node("Expand", ["c", "s"], ["e"]), node("ReduceSum", ["e"], ["z"], keepdims=0)],
        [ints("s", MANY, MANY), reals("c", (1,))],
    ),
    "Tile": ([node("Tile", ["c", "s"], ["z"])], [ints("s", MANY, MANY), reals("c", (1, 1))]),
    "Range": (
        [node("Range", ["from", "to", "by"], ["r"]), node("Cast", ["r"], ["z"], to=1)],
        [numpy_helper.from_array(np.array(n), name) for name, n in (("from", 0), ("to", 10**10), ("by", 1))],
    ),
    "Pad": ([node("Pad", ["c", "s"], ["z"])], [ints("s", MANY, MANY, 0, 0), reals("c", (1, 1))]),
    "OneHot": (
        [node("OneHot", ["i", "d", "v"], ["z"])],
        [ints("i", *range(1000)), ints("d", 10**8), reals("v", (2,))],
    ),
    "EyeLike": (
        [node("ConstantOfShape", ["s"], ["e"]), node("EyeLike", ["e"], ["z"], dtype=1)],
        [ints("s", MANY, MANY)],
    ),
    "Resize": (
        [node("Resize", ["c", "", "s"], ["z"], mode="nearest", coordinate_transformation_mode="asymmetric")],
        [numpy_helper.from_array(np.array([1, 1, MANY, MANY], np.float32), "s"), reals("c", (1, 1, 1, 1))],
    ),
    "an outer product": (
        [node("MatMul", ["a", "b"], ["z"])],
        [reals("a", (MANY, 1)), reals("b", (1, MANY), 2.5)],
    ),
    "a sum of a row and a column": (
        [node("Add", ["a", "b"], ["z"])],
        [reals("a", (MANY, 1)), reals("b", (1, MANY), 2.5)],
    ),
    "doubled again and again": (
        [node("Concat", [f"c{k or ''}"] * 4, [f"c{k + 1}"], axis=0) for k in range(16)] + [node("Neg", ["c16"], ["z"])],
        [reals("c", (16,))],
    ),
    "a list of values": (
        [node("ConstantOfShape", ["s"], ["l"], value=ints("v", 1)), node("Cast", ["l"], ["z"], to=1)],
        [ints("s", 10**9)],
    ),
}  # fmt: skip


def model(name: str) -> onnx.ModelProto:
    nodes, weights = CASES[name]
    graph = helper.make_graph(
        [*nodes, node("Add", ["z", "x"], ["y"])],
        "huge",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [onnx.ValueInfoProto(name="y")],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_memory_is_bounded(tmp_path: Path) -> None:
    for name in CASES:
        onnx.save(model(name), tmp_path / f"{name}.onnx")
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, *map(str, tmp_path.iterdir())], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    peaks = {
        Path(path).stem: max(map(int, kib)) for path, *kib in (line.split("\t") for line in done.stdout.splitlines())
    }
    assert peaks.keys() == CASES.keys()
    assert max(peaks.values()) < LIMIT_KIB, peaks


def identities(count: int) -> bytes:
    """Return a serialized model whose outputs have the types of its input."""
    nodes = [node("Identity", ["x"], [f"y{k}"]) for k in range(count)]
    values = [onnx.ValueInfoProto(name=f"y{k}") for k in range(count)]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])]
    graph = helper.make_graph(nodes, "g", given, values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


ENDLESS = onnx.parser.parse_model(
    '<ir_version: 9, opset_import: ["": 19]> g (float[2] x) => (float[] y) { y = Einsum<equation = "a-">(x) }'
)


def infers() -> None:
    """Expect types from inference within its limits."""
    found, seconds = infer(identities(1), 1 << 26, 60, data_prop=True)
    types = onnx.ModelProto.FromString(found).graph.output[0].type.tensor_type
    assert [dim.dim_value for dim in types.shape.dim] == [1, 2] and 0 <= seconds < 60


def test_inference_that_needs_too_much_fails_alone() -> None:
    infers()
    assert infer(identities(100_000), 1 << 20, 60, data_prop=False)[0] == b""
    infers()
    assert infer(b"no model", 1 << 26, 60, data_prop=False)[0] == b""
    infers()


def test_inference_without_an_end_fails_alone() -> None:
    infers()
    with pytest.raises(TimeoutError):
        infer(ENDLESS.SerializeToString(), 1 << 26, 1, data_prop=False)
    infers()


@pytest.mark.skipif(sys.platform != "linux", reason="inference has no process of its own there")
def test_inference_goes_on_after_its_process_was_killed() -> None:
    infers()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    (server,) = [pid for pid in children if b"inference_server" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(int(server), signal.SIGKILL)
    infers()


def test_an_endless_inference_is_one_clear_line(tmp_path: Path) -> None:
    onnx.save(ENDLESS, tmp_path / "endless.onnx")
    with pytest.raises(ModelError, match=r"endless\.onnx: ONNX's shape inference has no end"):
        read_simplified(tmp_path / "endless.onnx")
