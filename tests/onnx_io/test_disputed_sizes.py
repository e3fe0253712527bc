"""Sizes that ONNX Runtime gives and that ONNX's inference gets wrong: they are not known, and no value is folded.

Runs are without ONNX Runtime's optimizations, which fold Shape by ONNX's inference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from superopt.onnx_io import ModelError, read_simplified, write_model
from tests.support.simplified import parsed, simplified


def _run(model: onnx.ModelProto, x: np.ndarray) -> list[Any]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    plain = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: list[Any] = plain.run(None, {"x": x})[0].tolist()
    return found


@pytest.mark.parametrize(
    ("operand", "node", "weights", "opset", "sizes"),
    [
        ("float[10]", "Resize(x, , s)", "float[1] s = {0.7}", 17, [7]),
        ("float[10]", "Resize(x, , s)", "float[1] s = {0.9}", 17, [9]),
        ("float[10]", "Upsample(x, s)", "float[1] s = {1.3}", 9, [13]),
        ("float[5]", "Slice(x, a, b, c, a)", "int64[1] a = {-1}, int64[1] b = {2147483647}, int64[1] c = {0}", 17, [5]),
        (
            "float[1,1,5]",
            "MaxPool<ceil_mode = 1, kernel_shape = [2], strides = [3], pads = [0, 1]>(x)",
            "",
            17,
            [1, 1, 2],
        ),
        ("float[1,1,9]", "LpPool<kernel_shape = [3], dilations = [4]>(x)", "", 18, [1, 1, 1]),
        (
            "float[1,1,4]",
            'ConvTranspose<auto_pad = "SAME_UPPER", output_padding = [1], strides = [2]>(x, w)',
            "float[1,1,3] w = {1, 2, 3}",
            17,
            [1, 1, 8],
        ),
        ("float[1]", "PRelu(x, s)", "float[4] s = {1, 2, 3, 4}", 16, [4]),
        ("float[2,3]", "ReduceSum<keepdims = 2>(x, a)", "int64[1] a = {0}", 17, [3]),
        ("float[2,3]", "ReduceSum<keepdims = 0, noop_with_empty_axes = 2>(x)", "", 17, []),
        ("float[1,1,4]", "MaxPool<ceil_mode = 2, kernel_shape = [2], strides = [3]>(x)", "", 17, [1, 1, 1]),
        ("float[1,16,1]", "STFT(x, s, , l)", "int64 s = {3}, int64 l = {8}", 17, [1, 3, 5, 2]),
    ],
)
def test_sizes_are_those_of_a_run(operand: str, node: str, weights: str, opset: int, sizes: list[int]) -> None:
    model = parsed(f"g ({operand} x) => (int64[r] y) <{weights}> {{ t = {node} y = Shape(t) }}", opset)
    shape = [int(size) for size in operand[6:-1].split(",")]
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    written = write_model(read_simplified(model))
    assert _run(model, x) == _run(written, x) == sizes
    assert "Shape" in [node.op_type for node in written.graph.node]


@pytest.mark.parametrize(
    ("node", "weights", "opset"),
    [
        ("Slice(x, a, b)", "int64[1] a = {0}, int64[1] b = {100}", 10),
        ("PRelu(x, s)", "float[4] s = {1, 2, 3, 4}", 16),
        ('Einsum<equation = "i, i -> i">(x, w)', "", 17),
        (
            "If<then_branch = p () => (float[i] u) { u = Neg(x) },"
            " else_branch = q () => (float[j] v) { v = Neg(w) }>(c)",
            "",
            10,
        ),
    ],
)
def test_a_free_size_is_not_that_of_the_operand(node: str, weights: str, opset: int) -> None:
    """The runtime gives Slice the size 100 where n = 150, PRelu and Einsum the size 4 where n = 1 (and m = 4), and If
    the size m where c is false."""
    inputs = "float[n] x, float[m] w, bool c"
    read = read_simplified(parsed(f"g ({inputs}) => (float[k] y) <{weights}> {{ y = {node} }}", opset))
    types = read.outputs[0].type, read.inputs[0].type
    assert types[0] is not None and types[1] is not None
    assert types[0].shape != types[1].shape


_ATTENTION = "Attention<kv_num_heads = 3, q_num_heads = 3>(x, k, v)"


@pytest.mark.parametrize(
    ("inputs", "nodes", "feeds"),
    [
        (
            "float[2,4,24] x, float[2,6,24] k, float[2,6,c] v, float[2,4,2] r",
            f"t = {_ATTENTION} u = Exp(t) y = Concat<axis = 2>(u, r)",
            {"x": (2, 4, 24), "k": (2, 6, 24), "v": (2, 6, 30), "r": (2, 4, 2)},
        ),
        (
            "float[p] x, float[q,2] k",
            "shape = Shape(x) t, all = Scan<num_scan_inputs = 1, body = b (float[2] s, float[2] e) => (float[2] f,"
            " float[2] o) { f = Add(s, e) o = Identity(f) }>(x, k) u = Exp(t) y = Slice(u, zero, shape)",
            {"x": (1,), "k": (1, 2)},
        ),
    ],
)
def test_no_part_of_a_result_is_dropped(inputs: str, nodes: str, feeds: dict[str, tuple[int, ...]]) -> None:
    """ONNX gives an Attention whose values have a free size no elements, and keeps the size of a Scan's state."""
    result, opset = ("float[i,j,l] y", 23) if "v" in feeds else ("float[i] y", 17)
    model = parsed(f"g ({inputs}) => ({result}) <int64[1] zero = {{0}}> {{ {nodes} }}", opset)
    simplified(model, {name: np.ones(shape, np.float32) for name, shape in feeds.items()})


def test_an_empty_list_of_axes_is_left_to_the_runtime() -> None:
    """The runtime removes all axes of size 1."""
    empty = onnx.helper.make_attribute("axes", [], attr_type=onnx.AttributeProto.INTS)
    for opset in (12, 17):
        model = parsed("g (float[1,2] x) => (int64[r] y) { t = Squeeze(x) y = Shape(t) }", opset)
        if opset < 13:
            model.graph.node[0].attribute.append(empty)
        else:
            model.graph.node[0].input.append("axes")
            model.graph.initializer.add(name="axes", data_type=onnx.TensorProto.INT64, dims=[0])
        x = np.zeros((1, 2), np.float32)
        assert _run(model, x) == _run(write_model(read_simplified(model)), x) == [2]


def test_a_loss_for_each_target_has_the_sizes_of_the_target() -> None:
    """The runtime takes fewer targets than there are inputs."""
    body = '{ t = NegativeLogLikelihoodLoss<reduction = "none">(x, c) y = Shape(t) }'
    model = parsed(f"g (float[n,3] x, int64[m] c) => (int64[1] y) {body}", 17)
    assert "Shape" in simplified(model, {"x": np.ones((2, 3), np.float32), "c": np.array([0])})


def test_negative_axes_before_they_were_allowed_are_those_of_the_runtime() -> None:
    """ONNX says that all axes stay, so that a Reshape to them would do nothing."""
    body = "{ t = Squeeze<axes = [-1]>(x) s = Shape(x) y = Reshape(t, s) }"
    model = parsed(f"g (float[n,1] x) => (float[n,m] y) {body}", 10)
    simplified(model, {"x": np.ones((2, 1), np.float32)})


def test_an_empty_list_of_dilations_is_left_to_the_runtime() -> None:
    model = parsed(
        "g (float[1,10,12] x, int64[k] s, int64[l] b) => (int64[r] y) { t = Col2Im(x, s, b) y = Shape(t) }", 18
    )
    model.graph.node[0].attribute.append(
        onnx.helper.make_attribute("dilations", [], attr_type=onnx.AttributeProto.INTS)
    )
    feeds = {"x": np.zeros((1, 10, 12), np.float32), "s": np.array([3, 4, 5]), "b": np.array([1, 1, 5])}
    assert "Shape" in simplified(model, feeds)


def test_a_slope_for_each_channel_is_not_disputed() -> None:
    body = "<float[2,1] s = {1, 2}> { t = PRelu(x, s) y = Shape<start = 1, end = 2>(t) }"
    assert (
        simplified(parsed(f"g (float[n,2,h] x) => (int64[1] y) {body}"), {"x": np.zeros((1, 2, 4), np.float32)}) == []
    )


@pytest.mark.parametrize(("op", "opset"), [("Slice", 10), ("PRelu", 16), ("NonZero", 17), ("Einsum", 17)])
def test_nodes_without_inputs_are_left_to_the_runtime(op: str, opset: int) -> None:
    model = parsed("g (float[n] x) => (float[m] y) { y = Relu(x) }", opset)
    model.graph.node[0].op_type = op
    del model.graph.node[0].input[:]
    assert read_simplified(model).outputs[0].op.removeprefix("ai.onnx::") == op


def test_whole_scales_are_not_disputed() -> None:
    model = parsed(
        "g (float[1,1,4,4] x) => (int64[r] y) <float[4] s = {1, 1, 2, 2.5}> { t = Resize(x, , s) y = Shape(t) }"
    )
    assert simplified(model, {"x": np.zeros((1, 1, 4, 4), np.float32)}) == []


@pytest.mark.parametrize(("output", "inside"), [("", ", int64[1, 4] nz"), (", int64[1, 4] nz", "")])
def test_a_stated_shape_of_an_operator_of_onnx_does_not_count(output: str, inside: str) -> None:
    """The stated size 4 would turn the last element into the fourth one."""
    body = f"<int64[1] i = {{-1}}{inside}> {{ nz = NonZero(x) y = Gather<axis = 1>(nz, i) }}"
    model = parsed(f"g (float[4] x) => (int64[p, q] y{output}) {body}")
    x = np.float32([1, 0, 2, 0])
    assert _run(model, x) == _run(write_model(read_simplified(model)), x) == [[2]]


def test_two_versions_of_the_operator_set_are_an_error() -> None:
    model = parsed("g (float[2, 3] x) => (float[2, 3] y) { y = Softmax<axis = 1>(x) }", 13)
    model.opset_import.add(domain="ai.onnx", version=12)
    with pytest.raises(ModelError, match="several versions"):
        read_simplified(model)


@pytest.mark.parametrize("node", ["Slice(x, a, t, a, a)", "Slice(x, a, a, a, t)", "Resize(x, , t)"])
def test_strings_are_no_sizes(node: str) -> None:
    model = parsed(f"g (float[5] x) => (float[n] y) <int64[1] a = {{-1}}> {{ y = {node} }}", 17)
    model.graph.initializer.append(onnx.helper.make_tensor("t", onnx.TensorProto.STRING, [1], [b"1"]))
    read_simplified(model)
