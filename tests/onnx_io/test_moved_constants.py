"""Constants that an operator without a definition moves: folded where ONNX says what they are, else left."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from superopt.onnx_io import moved_constants, read_model, read_simplified, write_model
from superopt.onnx_io.model import Model
from tests.support.models import floats, model, weights

node = helper.make_node
DATA = weights(4, 3, 5)
DATA[0, 0, :3] = np.nan, -0.0, np.inf
ROWS = np.array([[[0, -1, 3, 1, 2]], [[1, 1, -4, 0, 3]]])
CELLS = np.array([[3, 0], [-2, 1], [0, -1]])


def read(op: str, data: np.ndarray, indices: np.ndarray, updates: np.ndarray | None = None, **attrs: object) -> Model:
    """A model of one operator over constants, whose result is added to x."""
    values = [("data", data), ("indices", indices), *([] if updates is None else [("updates", updates)])]
    nodes = [node(op, [name for name, _ in values], ["m"], **attrs), node("Mul", ["m", "x"], ["y"])]
    return read_simplified(model(nodes, [floats("x", 1)], [floats("y", *["a"] * data.ndim)], values, opset=18))


def moved(read: Model) -> bool:
    """True if no operator is left but the last one."""
    return [n.op_type for n in write_model(read, exact=True).graph.node] == ["Mul"]


@pytest.mark.parametrize(
    ("op", "indices", "updates", "attrs"),
    [
        ("GatherElements", ROWS, None, {}),
        ("GatherElements", ROWS % 3, None, {"axis": -2}),
        ("ScatterElements", ROWS[:1], weights(1, 1, 5), {}),
        ("ScatterElements", ROWS[:1, :, :3] % 3, weights(1, 1, 3), {"axis": 1}),
        ("GatherND", CELLS, None, {}),
        ("ScatterND", CELLS, weights(3, 5), {}),
        ("ScatterND", CELLS[:, None, :1], weights(3, 1, 3, 5), {}),
    ],
)
def test_elements_are_moved_as_the_runtime_moves_them(
    op: str, indices: np.ndarray, updates: np.ndarray | None, attrs: dict[str, int]
) -> None:
    found = read(op, DATA, indices, updates, **attrs)
    assert moved(found)
    inputs = {"data": DATA, "indices": indices, **({} if updates is None else {"updates": updates})}
    one = model([node(op, list(inputs), ["m"], **attrs)], [], [floats("m", *["a"] * 3)], list(inputs.items()), opset=18)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    (expected,) = ort.InferenceSession(one.SerializeToString(), options).run(None, {})
    (product,) = found.outputs
    (value,) = [found.weights[str(i.attr("hash"))] for i in product.inputs if i is not None and i.op == "Const"]
    assert value.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("op", "indices", "updates", "attrs"),
    [
        ("ScatterND", np.array([[1], [-3]]), weights(2, 3, 5), {}),  # one row twice
        ("ScatterElements", np.array([[[2, 1]], [[2, 1]]]), weights(2, 1, 2), {}),
        ("GatherND", np.array([[4, 0]]), None, {}),  # out of range
        ("GatherElements", np.array([[[-5]]]), None, {}),
        ("ScatterND", CELLS, weights(3, 5), {"reduction": "add"}),
        ("GatherND", np.array([[0], [1], [2], [0]]), None, {"batch_dims": 1}),
    ],
)
def test_what_onnx_leaves_open_or_computes_stays(
    op: str, indices: np.ndarray, updates: np.ndarray | None, attrs: dict[str, object]
) -> None:
    assert not moved(read(op, DATA, indices, updates, **attrs))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, np.bool_, np.float64])
def test_element_types(dtype: type) -> None:
    data = (np.nan_to_num(DATA, posinf=1) * 9).astype(dtype)
    nodes = [node("ScatterND", ["d", "i", "u"], ["m"]), node("Where", ["c", "m", "m2"], ["y"])]
    values = [("d", data), ("i", CELLS[:2]), ("u", data[0, :2]), ("m2", np.zeros((1,), dtype))]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [helper.make_tensor_value_info(name, k, shape) for name, k, shape in (("c", 9, [1]), ("y", kind, [4, 3, 5]))]
    found = read_simplified(model(nodes, ends[:1], ends[1:], values, opset=18))
    assert {n.op_type for n in write_model(found).graph.node} == {"Where"}


def test_masks_are_filled_where_a_program_assigns_to_slices() -> None:
    """The fill has more elements than a file stores, and each assignment is a ScatterND below a Transpose."""
    nodes = [
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("Transpose", ["zeros"], ["turned"], perm=[1, 0]),
        node("ScatterND", ["turned", "rows", "ones"], ["some"]),
        node("Transpose", ["some"], ["mask"], perm=[1, 0]),
        node("Add", ["x", "mask"], ["y"]),
    ]
    values = [("shape", np.array([40, 50])), ("rows", np.arange(9)[:, None]), ("ones", np.ones((9, 40), np.float32))]
    found = read_simplified(model(nodes, [floats("x", 40, 50)], [floats("y", 40, 50)], values))
    written = write_model(found)
    assert [n.op_type for n in written.graph.node] == ["Add"]
    (mask,) = map(onnx.numpy_helper.to_array, written.graph.initializer)
    assert mask[:, :9].all() and not mask[:, 9:].any()


def test_a_small_graph_does_not_make_huge_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moved_constants, "_ROOM", 100)
    nodes = [node("ScatterND", ["d", "i", "u"], ["a"]), node("ScatterND", ["a", "i", "v"], ["b"])]
    nodes.append(node("Mul", ["b", "x"], ["y"]))
    values = [("d", DATA), ("i", CELLS), ("u", weights(3, 5)), ("v", weights(3, 5, seed=1))]
    found = read_model(model(nodes, [floats("x", 1)], [floats("y", 4, 3, 5)], values, opset=18), simplify=True)
    assert [n.op_type for n in write_model(found).graph.node] == ["ScatterND", "Mul"]
