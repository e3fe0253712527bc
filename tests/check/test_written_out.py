"""Fused operators as those that they stand for: ONNX Runtime's results for both are compared, and proven equal."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.check import EQUIVALENT, check
from superopt.check.options import CheckOptions
from superopt.check.written_out import needs_writing_out, written_out
from tests.support.models import floats
from tests.support.runtime_oracle import session

node = helper.make_node
RNG = np.random.default_rng(0)
MATRIX = RNG.integers(-9, 9, (4, 5)).astype(np.int8)
KERNEL = RNG.integers(-9, 9, (6, 4, 3, 3)).astype(np.int8)
WEIGHTS = {
    "a": np.float32(0.02), "az": np.uint8(120), "b": np.float32(0.03), "bz": np.int8(2), "c": np.float32(0.05),
    "cz": np.uint8(128), "m": MATRIX, "k": KERNEL, "ks": np.linspace(0.01, 0.03, 6, dtype=np.float32),
    "kz": np.zeros(6, np.int8), "n": RNG.integers(-50, 50, 6).astype(np.int32),
    "v": RNG.random(5).astype(np.float32), "o": RNG.integers(0, 255, (2, 4, 5, 5)).astype(np.uint8),
    "bu": np.uint8(7), "g": np.float32([1, 2, -1, 0.5, 3]), "h": np.float32([0, 1, -1, 2, 5]),
}  # fmt: skip
Q = node("QuantizeLinear", ["x", "a", "az"], ["q"])
DQ = node("DequantizeLinear", ["r", "c", "cz"], ["y"])
FOLLOWED = [
    [Q, node("QLinearConv", ["q", "a", "az", "k", "ks", "kz", "c", "cz", "n"], ["r"], pads=[1, 1, 1, 1]), DQ],
    [Q, node("QLinearConv", ["q", "a", "az", "k", "b", "bz", "c", "cz"], ["r"], strides=[2, 2]), DQ],
    [Q, node("QLinearAdd", ["q", "a", "az", "o", "b", "bu", "c", "cz"], ["r"], domain="com.microsoft"), DQ],
    [Q, node("QLinearMul", ["q", "a", "az", "o", "b", "bu", "c", "cz"], ["r"], domain="com.microsoft"), DQ],
    [Q, node("QLinearSigmoid", ["q", "a", "az", "c", "cz"], ["r"], domain="com.microsoft"), DQ],
    [Q, node("QLinearLeakyRelu", ["q", "a", "az", "c", "cz"], ["r"], domain="com.microsoft", alpha=0.5), DQ],
    [Q, node("QLinearGlobalAveragePool", ["q", "a", "az", "c", "cz"], ["r"], domain="com.microsoft"), DQ],
    [node("DynamicQuantizeMatMul", ["x", "m5", "b", "bz"], ["y"], domain="com.microsoft")],
    [node("DynamicQuantizeMatMul", ["x", "m5", "b", "bz", "v"], ["y"], domain="com.microsoft")],
    [Q, node("QLinearMatMul", ["q", "a", "az", "m5", "b", "bz", "c", "cz"], ["r"]), DQ],
    [Q, node("MatMulIntegerToFloat", ["q", "m5", "a", "b", "az", "bz", "v"], ["y"], domain="com.microsoft")],
]


def graph(nodes: list[onnx.NodeProto], opset: int = 14) -> onnx.ModelProto:
    constants = WEIGHTS | {"m5": np.concatenate([MATRIX, MATRIX[:1]])}
    used = {name for one in nodes for name in one.input}
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items() if name in used]
    ends = [floats("x", 2, 4, 5, 5)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    made = helper.make_graph(nodes, "g", *ends, tensors)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(made, opset_imports=imports, ir_version=8)


@pytest.mark.parametrize("nodes", FOLLOWED, ids=lambda nodes: nodes[min(1, len(nodes) - 1)].op_type)
def test_the_runtime_computes_the_same(nodes: list[onnx.NodeProto]) -> None:
    proto = graph(nodes)
    other = written_out(proto)
    assert needs_writing_out(proto) and not needs_writing_out(other)
    x = np.random.default_rng(1).normal(size=(2, 4, 5, 5)).astype(np.float32)
    one, two = (session(model).run(None, {"x": x})[0] for model in (proto, other))
    step = 0.05 if nodes[-1] is DQ else 1e-5  # a half is rounded up by one and down by the other
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1.01 * step)
    assert np.mean(np.abs(one - two) > 1e-4) < 0.02


@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_without_a_zero_point_the_result_has_the_type_of_its_operand(op: str) -> None:
    fused = [node("QuantizeLinear", ["x", "a", "bz"], ["q"]), node(op, [*["q", "a", "bz"] * 2, "c"], ["r"])]
    fused[1].domain = "com.microsoft"
    proto = graph([*fused, node("Cast", ["r"], ["y"], to=TensorProto.FLOAT)])
    assert [one.op_type for one in written_out(proto).graph.node] == [one.op_type for one in proto.graph.node]


def test_scales_along_an_axis_are_not_written_for_older_operator_sets() -> None:
    ends = [Q, node("QLinearConv", ["q", "a", "az", "w", "ws", "wz", "c", "cz"], ["r"]), DQ]
    parts = [
        node("DequantizeLinear", ["q", "a", "az"], ["d"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["e"], axis=1),  # not along the output channels
        node("Conv", ["d", "e"], ["f"]),
        node("QuantizeLinear", ["f", "c", "cz"], ["r"]),
    ]
    square = {"w": KERNEL[:4], "ws": np.float32([0.01, 0.5, 0.02, 0.1]), "wz": np.zeros(4, np.int8)}
    one, other = graph(ends, 12), graph([Q, *parts, DQ], 13)
    for proto in (one, other):
        proto.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in square.items())
    assert check(one, other, CheckOptions(seconds=2)).verdict != EQUIVALENT


def test_names_are_new_inside_bodies_too() -> None:
    then = helper.make_graph([node("Identity", ["written_out_0"], ["t"])], "then", [], [floats("t", 5)])
    nodes = [
        Q, node("QLinearSigmoid", ["q", "a", "az", "c", "cz"], ["r"], domain="com.microsoft"), DQ,
        node("If", ["b"], ["z"], then_branch=then, else_branch=then),
    ]  # fmt: skip
    proto = graph(nodes[:3])
    proto.graph.node.append(nodes[3])
    proto.graph.initializer.append(numpy_helper.from_array(WEIGHTS["v"], "written_out_0"))
    proto.graph.initializer.append(numpy_helper.from_array(np.array(True), "b"))
    proto.graph.output.append(floats("z", 5))
    assert check(proto, proto, CheckOptions(seconds=20)).verdict == EQUIVALENT


def test_layer_normalization_of_older_operator_sets() -> None:
    nodes = [node("LayerNormalization", ["x", "g", "h"], ["y"], axis=-1, epsilon=1e-3)]
    proto = graph(nodes)
    assert not needs_writing_out(graph(nodes, 17))
    x = np.random.default_rng(1).normal(size=(2, 4, 5, 5)).astype(np.float32)
    one, two = (session(model).run(None, {"x": x})[0] for model in (proto, written_out(proto)))
    np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


def test_a_product_before_and_after_fusion_is_equivalent() -> None:
    apart = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("MatMulInteger", ["q", "m5", "z", "bz"], ["i"]),
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["s", "b"], ["t"]),
        node("Mul", ["f", "t"], ["p"]),
        node("Add", ["v", "p"], ["y"]),
    ]
    fused = [node("DynamicQuantizeMatMul", ["x", "m5", "b", "bz", "v"], ["y"], domain="com.microsoft")]
    assert check(graph(apart), graph(fused), CheckOptions(seconds=20)).verdict == EQUIVALENT
    fused[0].input[4] = "g"
    assert check(graph(apart), graph(fused), CheckOptions(seconds=20)).verdict != EQUIVALENT
