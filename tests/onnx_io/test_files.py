"""Files: one clear line for each way in which one can be bad, and writing that is whole or not at all."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser

from superopt.files import OutputError
from superopt.ir.infer import make
from superopt.ir.term import var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, new_model, read_model, save_model, write_model
from superopt.onnx_io.serialize import serialized
from tests.support.runtime_oracle import assert_equal, random_feeds, session

TEXT = """<ir_version: 8, opset_import: ["": 17]>
g (float[n, 3, 8, 8] x, bool c) => (float[n, m, a, b] y)
<float[4, 3, 1, 1] k = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, int64[1] axis = {0}> {
    t = Conv<auto_pad = "SAME_UPPER">(x, k)
    s, z = Split<axis = 1>(t)
    u = Unsqueeze(z, axis)
    q = Squeeze(u, axis)
    y = If(c) <then_branch = v () => (float[n, m, a, b] r) { r = Add(q, s) },
               else_branch = w () => (float[n, m, a, b] p) { p = Mul(q, s) }>
}"""
MODEL = parser.parse_model(TEXT)
BYTES = MODEL.SerializeToString()


def complaint(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_model(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(f"{path}: ")


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_missing_file(tmp_path: Path) -> None:
    assert complaint(tmp_path / "none.onnx") == "no such file"


def test_directory(tmp_path: Path) -> None:
    assert complaint(tmp_path) == "is a directory, not an ONNX model"


def test_file_below_a_file(tmp_path: Path) -> None:
    assert complaint(written(tmp_path / "a", b"x") / "b.onnx") == "Not a directory"


def test_empty_file(tmp_path: Path) -> None:
    assert complaint(written(tmp_path / "m.onnx", b"")) == "the file is empty"


@pytest.mark.parametrize(
    "content", [b"hello\n", b"# Read me\n\nThis is text.\n", TEXT.encode(), b"\x00" * 64, b"PK\x03\x04"]
)
def test_other_files(tmp_path: Path, content: bytes) -> None:
    assert complaint(written(tmp_path / "m.onnx", content)).startswith("not an ONNX model, or a truncated one")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.99])
def test_truncated_file(tmp_path: Path, part: float) -> None:
    truncated = written(tmp_path / "m.onnx", BYTES[: int(len(BYTES) * part)])
    assert complaint(truncated).startswith("not an ONNX model, or a truncated one")


def outcome(path: Path) -> str:
    try:
        write_model(read_model(path))
    except ModelError as error:
        return str(error)
    return ""


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(BYTES) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(BYTES)))
@example([], len(BYTES))
def test_damaged_files_give_one_line_or_a_model(changes: list[tuple[int, int]], cut: int) -> None:
    damaged = bytearray(BYTES)
    for place, value in changes:
        damaged[place] = value
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"superopt-damaged-{os.getpid()}.onnx"
    path.write_bytes(damaged if cut % 3 else damaged[:cut])
    try:
        assert "\n" not in outcome(path)
    finally:
        path.unlink()


def graph_error(body: str) -> str:
    with pytest.raises(ModelError) as caught:
        read_model(parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {body}'))
    return str(caught.value)


def test_undefined_tensors() -> None:
    assert graph_error("g (float[2] x) => (float[2] y) { y = Add(x, other) }") == (
        "model: Add node reads tensor 'other', which nothing defines"
    )
    assert graph_error("g (float[2] x) => (float[2] y) { z = Neg(x) }") == (
        "model: output 'y' is a tensor that nothing defines"
    )
    body = "b () => (float[2] r) { r = Neg(lost) }"
    assert graph_error(
        f"g (bool c, float[2] x) => (float[2] y) {{ y = If(c) <then_branch = {body}, "
        "else_branch = e () => (float[2] s) { s = Neg(x) }> }"
    ) == ("model: If node reads tensor 'lost', which nothing defines")


def test_cycles() -> None:
    assert "cycle" in graph_error("g (float[2] x) => (float[2] y) { a = Add(x, b) b = Neg(a) y = Relu(b) }")
    assert "cycle" in graph_error("g (float[2] x) => (float[2] y) { y = Relu(y) }")


def test_tensors_that_are_defined_twice() -> None:
    assert graph_error("g (float[2] x) => (float[2] y) { y = Neg(x) y = Relu(x) }") == (
        "model: tensor 'y' is defined twice"
    )
    assert graph_error("g (float[2] x) => (float[2] x) { x = Neg(x) }") == "model: tensor 'x' is defined twice"


def test_a_dense_and_a_sparse_weight_of_one_name() -> None:
    """ONNX Runtime takes the sparse one, and warns."""
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }'
    )
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [5.0])
    indices = helper.make_tensor("", TensorProto.INT64, [1], [0])
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    with pytest.raises(ModelError, match="given twice"):
        read_model(proto)


def test_two_weights_of_one_name() -> None:
    """ONNX Runtime takes the first of them, and says that it takes the last."""
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }'
    )
    proto.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [2], [3.0, 4.0]))
    with pytest.raises(ModelError, match="weight 'w' is given twice"):
        read_model(proto)


def test_malformed_tensors() -> None:
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    model.graph.initializer[0].dims[0] = 5
    with pytest.raises(ModelError, match="model: tensor 'k' is malformed"):
        read_model(model)
    model.graph.initializer[0].data_type = 99
    with pytest.raises(ModelError, match="model: tensor 'k' is malformed"):
        read_model(model)


def external(tmp_path: Path) -> Path:
    model = onnx.ModelProto()
    model.CopyFrom(MODEL)
    path = tmp_path / "m.onnx"
    del model.graph.initializer[:]
    model.graph.initializer.append(numpy_helper.from_array(np.ones((4, 3, 1, 1), np.float32), "k"))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.int64), "axis"))
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_external_data(tmp_path: Path) -> None:
    terms = read_model(external(tmp_path))
    feeds = {"x": np.ones((1, 3, 8, 8), np.float32), "c": np.array(True)}
    assert_equal(session(write_model(terms)).run(None, feeds), session(onnx.load(tmp_path / "m.onnx")).run(None, feeds))


def test_external_data_that_is_missing_or_too_short(tmp_path: Path) -> None:
    path = external(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"short")
    assert complaint(path)
    (tmp_path / "weights.bin").unlink()
    assert complaint(path).startswith("external data: ")


def big_model(size: int = 4000) -> onnx.ModelProto:
    weights = [numpy_helper.from_array(np.arange(size, dtype=np.float32) + k, f"w{k}") for k in range(3)]
    weights.append(numpy_helper.from_array(np.float32([7]), "small"))
    nodes = [helper.make_node("Sum", ["x", "w0", "w1", "w2", "small"], ["y"])]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_save(tmp_path: Path) -> None:
    path = tmp_path / "out.onnx"
    path.write_bytes(b"before")
    save_model(MODEL, path)
    assert path.read_bytes() == BYTES
    assert sorted(tmp_path.iterdir()) == [path]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_save_with_external_data(tmp_path: Path) -> None:
    path, model = tmp_path / "out.onnx", big_model()
    save_model(model, path, limit=1000)
    (weights,) = {p.name for p in tmp_path.iterdir()} - {"out.onnx"}
    assert re.fullmatch(r"out\.onnx\.[0-9a-f]{16}\.data", weights)
    assert path.stat().st_size < 2000
    loaded = onnx.load(path)
    assert [numpy_helper.to_array(t).tolist() for t in loaded.graph.initializer] == [
        numpy_helper.to_array(t).tolist() for t in model.graph.initializer
    ]
    feeds = random_feeds(model)
    runner = onnx.ModelProto.FromString(path.read_bytes())
    assert all(t.data_location == TensorProto.EXTERNAL for t in runner.graph.initializer[:3])
    external_session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert_equal(external_session.run(None, feeds), session(model).run(None, feeds))
    assert read_model(path).weights.keys() == read_model(model).weights.keys()


@pytest.mark.parametrize("limit", [1000, 10**9])
def test_a_failed_save_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    path = tmp_path / "out.onnx"
    path.write_bytes(b"before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"cannot be written: No space left on device"):
        save_model(big_model(), path, limit=limit)
    assert path.read_bytes() == b"before"
    assert sorted(tmp_path.iterdir()) == [path]


def test_all_weights_that_killed_runs_left_are_removed(tmp_path: Path) -> None:
    for name in ("out.onnx.0123456789abcdef.data", "out.onnx.fedcba9876543210.data", "out.onnx.00ff00ff00ff00ff.data"):
        (tmp_path / name).write_bytes(b"weights")
    save_model(big_model(), tmp_path / "out.onnx", limit=1000)
    assert len(list(tmp_path.iterdir())) == 2


def test_save_where_it_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is a directory"):
        save_model(MODEL, tmp_path)
    with pytest.raises(OutputError, match="is no folder to write to"):
        save_model(MODEL, tmp_path / "none" / "out.onnx")


def test_a_model_that_the_checker_refused_is_written_all_the_same(tmp_path: Path) -> None:
    """ONNX Runtime runs some models that the checker refuses; those must not fail here."""
    model = parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }')
    model.graph.node[0].attribute.append(helper.make_attribute("left_over", 3))
    terms = read_model(model)
    assert terms.checker_error is not None
    assert "left_over" in terms.checker_error
    assert write_model(terms).graph.node[0].attribute == model.graph.node[0].attribute


def test_what_an_opset_cannot_say() -> None:
    x = var("x", tensor(6))
    attrs = {"axes": (-1,), "starts": (0,), "ends": (6,), "steps": (2,)}
    with pytest.raises(ModelError, match="opset 9 has no Slice with steps"):
        write_model(new_model([make("Slice", (x,), attrs)], opset=9))


def test_serialized_in_parts_a_model_has_the_same_bytes() -> None:
    proto = onnx.ModelProto.FromString(BYTES)
    proto.graph.initializer.extend(numpy_helper.from_array(np.zeros(n, np.float32), f"w{n}") for n in (0, 31, 5000))
    proto.metadata_props.add(key="after", value="the graph")
    for one in (proto, MODEL, onnx.ModelProto(), onnx.ModelProto(ir_version=8)):
        assert b"".join(serialized(one)) == one.SerializeToString()
    assert max(map(len, serialized(proto))) < 4 * 5000 + 100  # no part holds more than one weight
