"""Nodes that are read as they are: what ONNX does not allow, leaves open or does not have yet, and sizes not known."""

from __future__ import annotations

import random

import pytest
from onnx import helper

from superopt.onnx_io import new_model, read_model, read_simplified, write_model
from superopt.onnx_io.schemas import is_extension
from tests.support.canonical_nodes import read, shown
from tests.support.semantic_cases import CASES
from tests.support.semantic_cases.opsets import first_version
from tests.support.semantic_cases.terms import canonical, outputs_of
from tests.support.simplified import parsed


@pytest.mark.parametrize(
    ("opset", "node"),
    [
        (17, "Gemm<transA = 2>(m, m)"),
        (17, "CumSum<reverse = 2>(m, i)"),
        (17, "ReduceSum<keepdims = 2>(m)"),
        (17, "ReduceSum<noop_with_empty_axes = 2>(m)"),
        (17, "ArgMax<select_last_index = -1>(m)"),
        (17, "Reshape<allowzero = 2>(m, zero)"),
        (17, "MaxPool<ceil_mode = 2, kernel_shape = [2]>(x)"),
        (17, "AveragePool<count_include_pad = 2, kernel_shape = [2]>(x)"),
        (23, "RotaryEmbedding<interleaved = 2>(r, c, c)"),
        (19, "Cast<to = 17, saturate = 2>(m)"),
        (12, "DequantizeLinear(b, s, z)"),  # scales along an axis are an idea of operator set 13
    ],
)
def test_what_runtimes_do_not_agree_on_stays_as_it_is(opset: int, node: str) -> None:
    inputs = "float[1, 2, 4] x, float[3, 3] m, float[1, 2, 4, 4] r, float[1, 4, 2] c, uint8[2, 2] b"
    weights = "int64 i = {0}, int64[2] zero = {0, 3}, float[2] s = {1, 2}, uint8[2] z = {0, 0}"
    model = parsed(f"g ({inputs}) => (float[] y) <{weights}> {{ y = {node} }}", opset)
    assert read_model(model).outputs[0].op.startswith("ai.onnx::")


@pytest.mark.parametrize(
    "node",
    [
        "Concat<axis = [1]>(x, x)",
        "GatherElements<axis = [0]>(w, i)",
        "GatherElements<axis = 7>(w, i)",
        "MaxPool<kernel_shape = 2, auto_pad = 1>(x)",
        "Transpose<perm = 1>(x)",
        "Shape()",
    ],
)
def test_what_the_schemas_do_not_allow_stays(node: str) -> None:
    weights = "int64[2, 2] i = {0, 1, 1, 0}, float[2, 2] w = {1, 2, 3, 4}"
    model = parsed(f"g (float[1, 2, 4] x) => (float[] y) <{weights}> {{ y = {node} }}", 17)
    op = node.partition("(")[0].partition("<")[0]
    assert [one.op_type for one in write_model(read_simplified(model)).graph.node] == [op]


def test_a_parameter_of_no_function_stays() -> None:
    model = parsed("g (float[1, 2, 4] x) => (float[] y) { y = MaxPool<kernel_shape = [2]>(x) }", 17)
    model.graph.node[0].attribute[0].ref_attr_name = "kernel"
    assert [one.op_type for one in write_model(read_simplified(model)).graph.node] == ["MaxPool"]


def test_pooling_of_a_size_that_may_be_smaller_than_the_window() -> None:
    """At size 1 ONNX Runtime computes a window that reaches out of x, and whether it counts what is outside matters."""
    node = "AveragePool<count_include_pad = 1, kernel_shape = [2], strides = [3]>(x)"
    for size, counted in (("n", 1), ("1", 1), ("2", 0)):
        model = parsed(f"g (float[1, 1, {size}] x) => (float[1, 1, m] y) {{ y = {node} }}", 17)
        assert read_model(model).outputs[0].attr("count_include_pad") == counted


def test_split_of_a_size_that_is_not_known() -> None:
    model = parsed("g (float[n, 4] x) => (float[a, 4] y, float[b, 4] z) { y, z = Split<axis = 0>(x) }", 13)
    assert read(model).op == "ai.onnx::Split"


def test_slice_of_a_size_that_is_not_known() -> None:
    weights = "int64[1] a = {0}, int64[1] b = {1}"
    model = parsed(f"g (float[n, 4] x) => (float[m, 4] y) <{weights}> {{ y = Slice(x, a, b, a) }}", 13)
    assert read(model).op == "ai.onnx::Slice"
    model = parsed(f"g (float[n, 4] x) => (float[n, 1] y) <{weights}> {{ y = Slice(x, a, b, b) }}", 13)
    assert shown(read(model)) == "Slice axes=(-1,) ends=(1,) starts=(0,) steps=(1,)"


def test_concat_of_a_rank_that_is_not_known() -> None:
    model = parsed("g (float[] x) => (float[] y) { y = Concat<axis = 0>(x, x) }", 13)
    assert read_model(model).outputs[0].op == "ai.onnx::Concat"


def test_operators_of_opsets_before_7_stay_as_they_are() -> None:
    node = helper.make_node("Add", ["x", "b"], ["y"], broadcast=1, axis=0)
    infos = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [2, 3]), ("b", [2]), ("y", [2, 3]))]
    graph = helper.make_graph([node], "g", infos[:2], infos[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3)
    term = read_model(model).outputs[0]
    assert shown(term) == "ai.onnx::Add axis=0 broadcast=1"


def _is_unknown_before(op: str) -> bool:
    """Return True if the opset before the operator's first one has it in no way."""
    return first_version(op) > 7 and not is_extension(op, first_version(op) - 1)


@pytest.mark.parametrize("op", sorted(filter(_is_unknown_before, CASES)))
def test_an_operator_that_is_newer_than_the_opset_stays_as_it_is(op: str) -> None:
    """ONNX Runtime may know it all the same; what terms say of the opset's operators would have to be written in it."""
    case = CASES[op](random.Random(0))
    model = write_model(new_model(outputs_of(op, case), opset=max(case.opset, first_version(op))))
    (node,) = model.graph.node
    assert (node.op_type, node.domain) == (op, "")
    assert read_model(model).outputs == canonical(op, case)
    model.opset_import[0].version = first_version(op) - 1
    terms = read_model(model)
    assert terms.outputs[0].op == f"ai.onnx::{op}"
    assert terms.checker_error is not None
    assert list(write_model(terms).graph.node) == [node]


def test_hard_swish_came_with_opset_14() -> None:
    for opset, op in ((13, "ai.onnx::HardSwish"), (14, "HardSwish")):
        terms = read_model(parsed("g (float[2] x) => (float[2] y) { y = HardSwish(x) }", opset))
        assert terms.outputs[0].op == op
        assert [node.op_type for node in write_model(terms).graph.node] == ["HardSwish"]


def test_an_operator_that_the_opset_has_no_more_stays_as_it_is() -> None:
    """Upsample went with opset 10; ONNX Runtime still takes it."""
    body = "g (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) <float[4] s = {1, 1, 2, 2}> { y = Upsample(x, s) }"
    assert read_model(parsed(body, 9)).outputs[0].op == "Resize"
    assert read_model(parsed(body, 10)).outputs[0].op == "Upsample"


@pytest.mark.parametrize("op", ["Attention", "MultiHeadAttention"])
def test_attention_of_numbers_stays(op: str) -> None:
    """A scalar has no last axis, from which the width of a head and so the scale would follow."""
    node = f"com.microsoft.{op}<num_heads = 2>(s, s, s)"
    model = parsed(f"g (float s) => (float[] y) {{ y = {node} }}", 17)
    model.opset_import.add(domain="com.microsoft", version=1)
    assert read_model(model).outputs[0].op == f"com.microsoft::{op}"
