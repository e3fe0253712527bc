"""Targets of Reshape and Expand that a model computes from its sizes, as exporters write them for dynamic sizes."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import pytest
from onnx import parser
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from superopt.ir.term import Term
from superopt.onnx_io import write_model
from superopt.onnx_io.simplify import read_simplified
from tests.support.runtime_oracle import session

SIZES = [(1, 1), (2, 5), (3, 2), (0, 3), (2, 0)]


def dynamic(nodes: str, opset: int = 18) -> onnx.ModelProto:
    """A model of x[n, m, 6]; `n` and `m` are its sizes, as lists."""
    text = f"""
        <ir_version: 8, opset_import: ["": {opset}]> g (float[n, m, 6] x) => (float[] y)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] three = {{3}},
         int64[1] six = {{6}}, int64[1] rest = {{-1}}> {{
          sizes = Shape(x) n = Gather<axis = 0>(sizes, zero) m = Gather<axis = 0>(sizes, one) {nodes} }}
    """
    model = parser.parse_model(text)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    return model


def read(model: onnx.ModelProto) -> Term:
    (output,) = read_simplified(model).outputs
    return output


def agree(model: onnx.ModelProto, fails_at_0: bool = False) -> onnx.ModelProto:
    """Compare the model as read and written with the original at all sizes."""
    written = write_model(read_simplified(model))
    for n, m in SIZES:
        feeds = {"x": np.random.default_rng(0).standard_normal((n, m, 6)).astype(np.float32)}
        with contextlib.ExitStack() as stack:
            if fails_at_0 and 0 in (n, m):
                stack.enter_context(contextlib.suppress(Fail))
            (wanted,) = session(model).run(None, feeds)
            stack.close()
            np.testing.assert_array_equal(session(written).run(None, feeds)[0], wanted)
    return written


@pytest.mark.parametrize("allowzero", [0, 1])
@pytest.mark.parametrize(
    ("target", "shape"),
    [
        ("n, m, two, three", (0, 0, 2, 3)),
        ("n, m, three, two", (0, 0, 3, 2)),
        ("n, m, rest, three", (0, 0, -1, 3)),
        ("n, two, m, three", None),
        ("m, n, six", None),
    ],
)
def test_sizes_in_place_are_copied(target: str, shape: tuple[int, ...] | None, allowzero: int) -> None:
    model = dynamic(f"t = Concat<axis = 0>({target}) y = Reshape<allowzero = {allowzero}>(x, t)")
    output = read(model)
    assert output.op == "Reshape"
    if shape is not None:
        inferred = tuple(2 if size == -1 and allowzero else size for size in shape)
        assert (output.attr("allowzero"), output.attr("shape")) == (0, inferred)
    written = agree(model, fails_at_0=True)
    if shape is not None:
        assert [node.op_type for node in written.graph.node] == ["Reshape"]


def test_heads_that_are_merged_with_the_batch() -> None:
    """The keys of an attention as PyTorch's exporter transposes them."""
    model = dynamic("""
        split = Concat<axis = 0>(n, m, two, three) a = Reshape<allowzero = 1>(x, split)
        b = Transpose<perm = [0, 2, 1, 3]>(a) merged = Concat<axis = 0>(rest, m, three) c = Reshape(b, merged)
        d = Transpose<perm = [0, 2, 1]>(c) apart = Concat<axis = 0>(n, two, three, m) y = Reshape(d, apart)
    """)
    output, operators = read(model), []
    while output.op != "Var":
        operators.append(output.op)
        output = output.inputs[0] or output
    assert operators == ["Reshape", "Transpose", "Reshape", "Transpose", "Reshape"]
    agree(model, fails_at_0=True)


def test_sizes_that_are_broadcast() -> None:
    model = dynamic("t = Concat<axis = 0>(two, n, m, six) y = Expand(x, t)")
    assert read(model).op == "Expand"
    agree(model)


@pytest.mark.parametrize(
    ("nodes", "opset"),
    [
        ("t = Concat<axis = 0>(zero, n, m) y = Reshape<allowzero = 1>(x, t)", 18),  # 0 is a size there
        ("t = Concat<axis = 0>(m, n, six) y = Reshape(x, t)", 13),  # a computed 0 copies
    ],
)
def test_targets_that_stay(nodes: str, opset: int) -> None:
    assert read(dynamic(nodes, opset)).op == "ai.onnx::Reshape"


@pytest.mark.parametrize("nodes", ["t = Neg(x)", "none = Constant<value_ints = [1, 0]>() t = Tile(x, none)"])
def test_a_result_without_elements_has_no_target_of_its_own(nodes: str) -> None:
    """A target of 0 copies an axis: so the shape [0] is written as -1 only."""
    text = f"g (int64[4, 0] x) => (int64[0] y) <int64[1] flat = {{-1}}> {{ {nodes} y = Reshape(t, flat) }}"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    (found,) = session(write_model(read_simplified(model))).run(None, {"x": np.zeros((4, 0), np.int64)})
    assert found.shape == (0,)
