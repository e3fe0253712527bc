"""Weights in other files: carried wherever a model names them, mapped if large, and never read from elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, SparseTensorProto, TensorProto, helper, numpy_helper

from superopt.files import OutputError
from superopt.onnx_io import ModelError, read_model, save_model, write_model
from superopt.onnx_io import external_data as module
from superopt.onnx_io.external_data import MappedArray, all_tensors, is_external, load_external_data
from superopt.onnx_io.load import load_proto
from superopt.onnx_io.save import spilled
from superopt.runtime import Target, open_session
from tests.support.runtime_oracle import assert_equal

node, floats = helper.make_node, helper.make_tensor_value_info
WEIGHT = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
X = np.ones((2, 64), np.float32)


@pytest.fixture(params=[1 << 10, 1 << 20], ids=["mapped", "loaded"], autouse=True)
def threshold(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The weights of these tests are large, then small."""
    monkeypatch.setattr(module, "_MAPPED_BYTES", request.param)
    return int(request.param)


def outside(name: str, location: str = "w.bin", **entries: object) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=WEIGHT.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": 0, "length": WEIGHT.nbytes, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def model(nodes: list[onnx.NodeProto], *weights: TensorProto, condition: bool = False) -> onnx.ModelProto:
    inputs = [floats("x", TensorProto.FLOAT, ["N", 64])]
    if condition:
        inputs.append(floats("c", TensorProto.BOOL, []))
    graph = helper.make_graph(nodes, "g", inputs, [floats("y", TensorProto.FLOAT, ["N", 64])], weights)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def initializer() -> onnx.ModelProto:
    return model([node("MatMul", ["x", "a"], ["y"])], outside("a"))


def constant() -> onnx.ModelProto:
    return model([node("Constant", [], ["a"], value=outside("v")), node("MatMul", ["x", "a"], ["y"])])


def body(inner: list[onnx.NodeProto], *weights: TensorProto) -> onnx.ModelProto:
    then = helper.make_graph(inner, "then", [], [floats("t", TensorProto.FLOAT, None)], weights)
    other = helper.make_graph([node("Relu", ["x"], ["e"])], "else", [], [floats("e", TensorProto.FLOAT, None)])
    return model([node("If", ["c"], ["y"], then_branch=then, else_branch=other)], condition=True)


def body_initializer() -> onnx.ModelProto:
    return body([node("MatMul", ["x", "a"], ["t"])], outside("a"))


def body_constant() -> onnx.ModelProto:
    return body([node("Constant", [], ["a"], value=outside("v")), node("MatMul", ["x", "a"], ["t"])])


def function() -> onnx.ModelProto:
    inner = [node("Constant", [], ["a"], value=outside("v")), node("MatMul", ["x", "a"], ["y"])]
    made = model([node("f", ["x"], ["y"], domain="own")])
    made.functions.append(helper.make_function("own", "f", ["x"], ["y"], inner, [helper.make_opsetid("", 17)]))
    return made


PLACES = [initializer, constant, body_initializer, body_constant, function]


def saved(folder: Path, proto: onnx.ModelProto, name: str = "m.onnx") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "w.bin").write_bytes(WEIGHT.tobytes())
    (folder / name).write_bytes(proto.SerializeToString())
    return folder / name


def check_runs(path: Path) -> None:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feeds = {"x": X, "c": np.array(True)}
    (found,) = session.run(None, {entry.name: feeds[entry.name] for entry in session.get_inputs()})
    np.testing.assert_allclose(found, X @ WEIGHT, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", PLACES)
@pytest.mark.parametrize("limit", [100, 10**9])
def test_weights_are_carried_to_another_folder(tmp_path: Path, make: Callable[[], onnx.ModelProto], limit: int) -> None:
    """Read, written and saved; in one file and in two."""
    path = saved(tmp_path / "from", make())
    (tmp_path / "to").mkdir()
    written = write_model(read_model(path))
    save_model(written, tmp_path / "to" / "m.onnx", limit=limit)
    os.rename(tmp_path / "from", tmp_path / "gone")
    check_runs(tmp_path / "to" / "m.onnx")


@pytest.mark.parametrize("make", PLACES)
def test_a_model_in_memory_runs(tmp_path: Path, make: Callable[[], onnx.ModelProto]) -> None:
    proto = write_model(read_model(saved(tmp_path, make())))
    session = open_session(proto, Target("cpu"))
    feeds = {"x": X, "c": np.array(True)}
    (found,) = session.run({name: feeds[name] for name in session.input_names})
    np.testing.assert_allclose(found, X @ WEIGHT, rtol=1e-5, atol=1e-5)


def test_large_weights_are_not_copied(tmp_path: Path, threshold: int) -> None:
    path = saved(tmp_path, initializer())
    read = read_model(path)
    (array,) = read.weights.values()
    assert isinstance(array, MappedArray) == (threshold < WEIGHT.nbytes)
    assert array[0].base is not None and getattr(array[0], "extent", None) is None
    assert getattr(array.T, "extent", None) is None
    written = write_model(read)
    assert (len(written.SerializeToString()) < 1000) == (threshold < WEIGHT.nbytes)
    assert read_model(written).weights.keys() == read.weights.keys()
    module.release_all([array])
    np.testing.assert_array_equal(array, WEIGHT)


def test_a_model_that_was_not_loaded_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, initializer())
    proto = onnx.load(path, load_external_data=False)
    with pytest.raises(ModelError, match="in an external file that was not loaded; give the path"):
        read_model(proto)


def test_sparse_tensors_and_training_information_come_along(tmp_path: Path) -> None:
    proto = initializer()
    values = numpy_helper.from_array(np.float32([3, 4]), "s")
    sparse = SparseTensorProto(values=values, indices=numpy_helper.from_array(np.int64([1, 5]), "i"), dims=[8])
    sparse.values.CopyFrom(outside("s", offset=0, length=8))
    del sparse.values.dims[:]
    sparse.values.dims.append(2)
    proto.graph.sparse_initializer.append(sparse)
    training = proto.training_info.add().initialization
    training.name = "start"
    training.initializer.append(outside("start_value"))
    training.node.append(node("Identity", ["start_value"], ["started"]))
    path = saved(tmp_path, proto)
    loaded = load_proto(path)
    assert not is_external(loaded.graph.sparse_initializer[0].values)
    save_model(loaded, tmp_path / "out.onnx")
    out = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    found = numpy_helper.to_array(out.training_info[0].initialization.initializer[0])
    np.testing.assert_array_equal(found, WEIGHT)
    assert not any(map(is_external, all_tensors(out)))


def test_shared_bytes_are_written_once(tmp_path: Path) -> None:
    nodes = [node("MatMul", ["x", "a"], ["h"]), node("MatMul", ["h", "b"], ["y"])]
    loaded = load_proto(saved(tmp_path, model(nodes, outside("a"), outside("b"))))
    if is_external(loaded.graph.initializer[0]):
        save_model(loaded, tmp_path / "out.onnx", limit=100)
        (weights,) = tmp_path.glob("out.onnx.*.data")
        assert weights.stat().st_size == WEIGHT.nbytes


def test_spilled_weights_run(tmp_path: Path) -> None:
    proto = model([node("MatMul", ["x", "a"], ["y"])], numpy_helper.from_array(WEIGHT, "a"))
    light = spilled(proto, tmp_path / "weights")
    assert len(light.SerializeToString()) < 1000 and proto.graph.initializer[0].raw_data
    found = open_session(light, Target("cpu")).run({"x": X})
    assert_equal(found, open_session(proto, Target("cpu")).run({"x": X}))


def refused(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_model(path)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(f"{path}: external data: ")
    return message


@pytest.mark.parametrize("make", PLACES)
def test_files_that_are_missing_or_too_short(tmp_path: Path, make: Callable[[], onnx.ModelProto]) -> None:
    path = saved(tmp_path, make())
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes()[:-1])
    assert "which has 16383 bytes; copy it again" in refused(path)
    (tmp_path / "w.bin").unlink()
    assert "w.bin: no such file; copy it to the folder of the model" in refused(path)
    (tmp_path / "w.bin").mkdir()
    assert "w.bin is no regular file" in refused(path)
    (tmp_path / "w.bin").rmdir()
    os.mkfifo(tmp_path / "w.bin")
    assert "w.bin is no regular file" in refused(path)


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": 4},
        {"offset": -4},
        {"length": 12},
        {"length": -1},
        {"length": 1 << 70},
        {"offset": "far"},
        {"offset": "0_0"},
        {"offset": " 0"},
        {"length": "+8"},
    ],
)
def test_places_that_are_not_in_the_file(tmp_path: Path, entries: dict[str, object]) -> None:
    path = saved(tmp_path, model([node("MatMul", ["x", "a"], ["y"])], outside("a", **entries)))
    assert "tensor 'a'" in refused(path)


def test_offset_and_length_may_be_left_out(tmp_path: Path) -> None:
    tensor = outside("a")
    del tensor.external_data[1:]
    path = saved(tmp_path, model([node("MatMul", ["x", "a"], ["y"])], tensor))
    (array,) = read_model(path).weights.values()
    np.testing.assert_array_equal(array, WEIGHT)


@pytest.mark.parametrize("location", ["/etc/passwd", "../w.bin", "sub/../../w.bin", "link", "folder/w.bin", "", "a\0b"])
def test_what_is_outside_of_the_folder_is_not_read(tmp_path: Path, location: str) -> None:
    """Also through a link, as ONNX Runtime does it."""
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "link").symlink_to("../w.bin")
    (tmp_path / "in" / "folder").symlink_to(tmp_path)
    path = saved(tmp_path / "in", model([node("MatMul", ["x", "a"], ["y"])], outside("a", location)))
    message = refused(path)
    assert "absolute path" in message or "outside of the folder" in message or "has no name" in message


@pytest.mark.parametrize("location", ["w.bin", "./w.bin", "sub/w.bin", "sub/../w.bin", "link", "sub/link"])
def test_what_is_inside_is_followed(tmp_path: Path, location: str) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / "w.bin").write_bytes(WEIGHT.tobytes())
    (tmp_path / "in" / "sub" / "link").symlink_to("../w.bin")
    (tmp_path / "in" / "link").symlink_to("w.bin")
    path = saved(tmp_path / "in", model([node("MatMul", ["x", "a"], ["y"])], outside("a", location)))
    save_model(write_model(read_model(path)), tmp_path / "out.onnx")
    check_runs(tmp_path / "out.onnx")


def test_a_cache_of_links_is_followed(tmp_path: Path) -> None:
    """The model and its weights are links to files with other names in one folder."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    os.rename(saved(tmp_path / "new", initializer()).parent, blobs)
    os.rename(blobs / "m.onnx", blobs / "0123")
    os.rename(blobs / "w.bin", blobs / "4567")
    snapshot.mkdir(parents=True)
    (snapshot / "model.onnx").symlink_to("../../blobs/0123")
    (snapshot / "w.bin").symlink_to("../../blobs/4567")
    check_runs(snapshot / "model.onnx")
    save_model(write_model(read_model(snapshot / "model.onnx")), tmp_path / "out.onnx")
    check_runs(tmp_path / "out.onnx")


def test_weights_are_not_written_beside_a_link(tmp_path: Path) -> None:
    """Beside the link the file that it leads to would not find them, and beside that file the link would not."""
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "out.onnx"
    link.symlink_to("elsewhere/m.onnx")
    proto = model([node("MatMul", ["x", "a"], ["y"])], numpy_helper.from_array(WEIGHT, "a"))
    with pytest.raises(OutputError, match=r"elsewhere/m\.onnx"):
        save_model(proto, link, limit=100)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
    save_model(proto, link)
    check_runs(tmp_path / "elsewhere" / "m.onnx")


def test_a_type_of_four_bits(tmp_path: Path) -> None:
    tensor = TensorProto(name="a", data_type=TensorProto.INT4, dims=[3, 1001])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    attribute = AttributeProto(name="value", type=AttributeProto.TENSOR, t=tensor)
    made = node("Constant", [], ["a"])
    made.attribute.append(attribute)
    proto = model([made, node("DequantizeLinear", ["a", "s"], ["y"])], numpy_helper.from_array(np.float32(1), "s"))
    path = saved(tmp_path, proto)
    load_external_data(proto, path)
    assert proto.graph.node[0].attribute[0].t.raw_data == WEIGHT.tobytes()[:1502]


@pytest.fixture
def two_files(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "out.onnx"
    save_model(model([node("MatMul", ["x", "a"], ["y"])], numpy_helper.from_array(WEIGHT, "a")), path, limit=100)
    yield path
    check_runs(path)


def test_weights_of_an_earlier_result_are_removed(two_files: Path) -> None:
    (old,) = two_files.parent.glob("*.data")
    (two_files.parent / "own.data").write_bytes(b"mine")
    turned = numpy_helper.from_array(np.ascontiguousarray(WEIGHT.T), "a")
    save_model(model([node("Gemm", ["x", "a"], ["y"], transB=1)], turned), two_files, limit=100)
    assert not old.exists()
    assert len(list(two_files.parent.iterdir())) == 3


@pytest.mark.parametrize("limit", [100, 10_000_000])
def test_weights_that_a_killed_process_has_left_are_removed(two_files: Path, limit: int) -> None:
    fcntl = pytest.importorskip("fcntl")  # only locks tell what a killed process has left
    left = two_files.with_name("out.onnx.0123456789abcdef.data")
    others = [two_files.with_name(name) for name in ("in.onnx.0123456789abcdef.data", "out.onnx.01.data")]
    for path in (left, *others):
        path.write_bytes(b"weights")
    turned = numpy_helper.from_array(np.ascontiguousarray(WEIGHT.T), "a")
    with left.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # a process is about to put its model in place
        save_model(model([node("Gemm", ["x", "a"], ["y"], transB=1)], turned), two_files, limit=limit)
        assert left.exists()
    save_model(model([node("Gemm", ["x", "a"], ["y"], transB=1)], turned), two_files, limit=limit)
    assert not left.exists() and all(path.exists() for path in others)
    assert len(list(two_files.parent.iterdir())) == (4 if limit == 100 else 3)


def test_weights_that_another_model_needs_stay(two_files: Path) -> None:
    (old,) = two_files.parent.glob("*.data")
    copy = two_files.with_name("copy.onnx")
    copy.write_bytes(two_files.read_bytes())
    save_model(model([node("Gemm", ["x", "a"], ["y"])], numpy_helper.from_array(WEIGHT, "a")), two_files)
    assert old.exists()
    check_runs(copy)


def test_the_same_result_again(two_files: Path) -> None:
    before = {path.name: path.read_bytes() for path in two_files.parent.iterdir()}
    save_model(model([node("MatMul", ["x", "a"], ["y"])], numpy_helper.from_array(WEIGHT, "a")), two_files, limit=100)
    assert {path.name: path.read_bytes() for path in two_files.parent.iterdir()} == before


def test_a_failure_between_the_two_files_changes_nothing(two_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in two_files.parent.iterdir()}
    real = os.replace

    def broken(source: str, target: Path) -> None:
        if Path(target).suffix == ".onnx":
            raise OSError(28, "No space left on device")
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", broken)
        turned = model([node("MatMul", ["x", "a"], ["y"])], numpy_helper.from_array(2 * WEIGHT, "a"))
        with pytest.raises(OSError, match="No space left"):
            save_model(turned, two_files, limit=100)
    assert {path.name: path.read_bytes() for path in two_files.parent.iterdir()} == before


def test_names_as_long_as_the_file_system_takes(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 125 + ".onnx")
    save_model(model([node("MatMul", ["x", "a"], ["y"])], numpy_helper.from_array(WEIGHT, "a")), path, limit=100)
    assert len(list(tmp_path.iterdir())) == 2
    check_runs(path)


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    path = saved(tmp_path, initializer())
    first = read_model(path)
    (tmp_path / "new").write_bytes((2 * WEIGHT).tobytes())
    os.replace(tmp_path / "new", tmp_path / "w.bin")
    (second,) = read_model(path).weights.values()
    np.testing.assert_array_equal(second, 2 * WEIGHT)
    np.testing.assert_array_equal(next(iter(first.weights.values())), WEIGHT)
