"""ONNX's inference propagates values without rank and element type: what it makes of such values is not believed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, parser

from superopt.ir.dim import Size, symbol
from superopt.onnx_io import write_model
from superopt.onnx_io.inference import light_copy, proven_shapes
from superopt.onnx_io.simplify import read_simplified
from tests.support.runtime_oracle import session

NARROW = ["BOOL", "INT8", "UINT8", "INT16", "UINT16", "FLOAT16", "BFLOAT16", "FLOAT"]
N, M = symbol("n"), symbol("m")


def dynamic(nodes: str, result: str = "float[a] y") -> onnx.ModelProto:
    """A model of x[n, m] and the sizes of x."""
    return parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 18]> g (float[n, m] x, bool c) => ({result})
        <int64 zero = {{0}}, int64[1] front = {{0}}, int64[1] one = {{1}}, int64[2, 2] pairs = {{3, 4, 5, 6}}>
        {{ sizes = Shape(x) first = Gather(sizes, front) {nodes} }}
    """)


def proven(model: onnx.ModelProto, name: str = "y") -> tuple[Size, ...] | None:
    return proven_shapes(light_copy(model, list(model.graph.node))).get(name)


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ("y = ConstantOfShape(sizes)", (N, M)),
        ("y = ConstantOfShape(first)", (N,)),
        ("short = Cast<to = 6>(sizes) long = Cast<to = 7>(short) y = ConstantOfShape(long)", (N, M)),
        ("last = Gather(sizes, one) both = Concat<axis = 0>(last, first) y = ConstantOfShape(both)", (M, N)),
        ("scalar = Squeeze(first) list = Unsqueeze(scalar, front) y = ConstantOfShape(list)", (N,)),
    ],
)
def test_sizes_that_are_only_moved_are_known(nodes: str, shape: tuple[Size, ...]) -> None:
    assert proven(dynamic(nodes)) == shape


@pytest.mark.parametrize("dtype", NARROW)
def test_a_narrow_type_may_change_a_size(dtype: str) -> None:
    number = TensorProto.DataType.Value(dtype)
    model = dynamic(f"t = Cast<to = {number}>(first) back = Cast<to = 7>(t) y = ConstantOfShape(back)")
    found = proven(model)
    assert found is not None and len(found) == 1 and found != (N,)


@pytest.mark.parametrize(
    "nodes",
    [
        "row = Unsqueeze(sizes, front) all = Gather<axis = 0>(row, zero) y = ConstantOfShape(all)",
        "row = Unsqueeze(sizes, front) s = Slice(row, front, one) list = Squeeze(s, front) y = ConstantOfShape(list)",
        "all = Gather<axis = 0>(pairs, zero) y = ConstantOfShape(all)",
    ],
)
def test_a_row_is_more_than_its_first_number(nodes: str) -> None:
    found = proven(dynamic(nodes))
    assert found is None or len(found) == 2


def test_products_of_short_integers_may_wrap_around() -> None:
    """65,536 times 65,536 is 0 there."""
    model = dynamic(
        "half = Cast<to = 6>(large) whole = Mul(half, half) back = Cast<to = 7>(whole) y = ConstantOfShape(back)"
    )
    model.graph.initializer.add(name="large", data_type=TensorProto.INT64, dims=[1], int64_data=[1 << 16])
    assert proven(model) != (1 << 32,)


def test_values_in_branches_are_not_believed_either() -> None:
    branch = "t = Cast<to = 2>(first) back = Cast<to = 7>(t) r = ConstantOfShape(back)"
    bodies = ", ".join(
        f"{name}_branch = {name} () => (float[{name}_size] r) {{ {branch} }}" for name in ("then", "else")
    )
    found = proven(dynamic(f"y = If(c) <{bodies}>"))
    assert found is None or found != (N,)


def test_a_model_is_read_as_the_runtime_runs_it() -> None:
    """A Slice to the size that a byte holds is not the whole axis: 300 becomes 44."""
    model = dynamic(
        "t = Cast<to = 2>(first) back = Cast<to = 7>(t) made = ConstantOfShape(back) end = Shape(made) e = Exp(x) "
        "y = Slice(e, front, end)",
        "float[a, b] y",
    )
    feeds = {"x": np.ones((300, 2), np.float32), "c": np.array(True)}
    (expected,) = session(model).run(None, feeds)
    (found,) = session(write_model(read_simplified(model))).run(None, feeds)
    assert found.shape == expected.shape == (44, 2)


def test_names_of_hidden_values_are_new() -> None:
    """Other tensors may have any name."""
    model = dynamic(
        "hidden_ = Cast<to = 2>(first) hidden__________0 = Cast<to = 7>(hidden_) y = ConstantOfShape(hidden__________0)"
    )
    found = proven(model)
    assert found is not None and found != (N,)
