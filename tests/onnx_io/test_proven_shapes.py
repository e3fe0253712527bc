"""Free sizes that follow from the shapes of the inputs: what models compute by arithmetic on shapes is known."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from superopt.ir.dim import evaluate, floor_div, symbol
from superopt.ir.types import TensorType
from superopt.onnx_io import Model, read_simplified, write_model
from superopt.onnx_io.node_inference import node_types
from superopt.onnx_io.static_values import is_never_negative
from tests.support.runtime_oracle import session


def parsed(body: str, weights: str = "") -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[b, s, 4] x, int64[b, s] ids) => (float[?] y) '
        f"<int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64[1] axis = {{1}}, int64[1] zeros = {{0}}, "
        f"int64[1] ones = {{1}}, int64[1] minus = {{-1}}, int64[1] four = {{4}}, int64[1] far = {{9223372036854775807}}"
        f"{weights}> {{ {body} }}"
    )


def shape(model: Model, name: str) -> str:
    (term,) = (term for term, found in model.names.items() if found == name)
    return str(term.type)


S = "xs = Shape(ids) s = Gather(xs, one) b = Gather(xs, zero) s1 = Unsqueeze(s, zeros) b1 = Unsqueeze(b, zeros) "


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("r = Range(zero, s, one) q = Neg(r) y = Cast<to = 1>(q)", "int64[s]"),
        ("r = Range(two, s, one) q = Neg(r) y = Cast<to = 1>(q)", None),  # s may be 1
        ("t = Concat<axis = 0>(b1, s1) q = ConstantOfShape(t) y = Neg(q)", "float[b, s]"),
        ("t = Concat<axis = 0>(b1, minus, s1) q = Reshape(x, t) y = Neg(q)", "float[b, 4, s]"),
        ("t = Concat<axis = 0>(minus, four) q = Reshape(x, t) y = Neg(q)", "float[b*s, 4]"),
        ("t = Concat<axis = 0>(b1, ones) q = Tile(ids, t) y = Cast<to = 1>(q)", "int64[b**2, s]"),
        ("q = Slice(x, ones, far, axis) y = Neg(q)", None),
        ("q = Slice(x, zeros, four, axis) y = Neg(q)", None),  # s may be less
        ("q = Gather<axis = 0>(table, ids) y = Neg(q)", "float[b, s, 3]"),
        ("p = Slice(table, zeros, s1, zeros) u = Slice(p, zeros, ones, axis) t = Transpose<perm = [1, 0]>(u) "
         "c = Cast<to = 1>(ids) q = Add(c, t) y = Neg(q)", "float[b, s]"),
        ("q = NonZero(ids) y = Cast<to = 1>(q)", None),
    ],
)  # fmt: skip
def test_sizes_are_polynomials_of_those_of_the_inputs(body: str, wanted: str | None) -> None:
    model = read_simplified(parsed(S + body, ", float[6, 3] table = {" + ", ".join(["0.5"] * 18) + "}"))
    (q,) = (term for term, name in model.names.items() if name == "q")
    found = str(q.type)
    if wanted is None:
        assert not {"s", "s - 1"} & set(found[found.index("[") + 1 : -1].split(", "))
    else:
        assert found == wanted.replace("b**2", "b*b")


def test_a_mask_that_is_expanded_to_its_own_shape_is_not() -> None:
    body = S + (
        "t = Concat<axis = 0>(b1, s1, minus) m = Equal(t, minus) o = ConstantOfShape<value = int64[1] {1}>(three) "
        "w = Where(m, o, t) f = Cast<to = 1>(ids) u = Unsqueeze(f, minus) e = Expand(u, w) y = Neg(e)"
    )
    model = parsed(body, ", int64[1] three = {3}")
    written = write_model(read_simplified(model))
    assert [node.op_type for node in written.graph.node] == ["Cast", "Unsqueeze", "Neg"]
    feeds = {"x": np.ones((2, 3, 4), np.float32), "ids": np.arange(6).reshape(2, 3)}
    np.testing.assert_array_equal(session(written).run(None, feeds)[0], -feeds["ids"][..., None].astype(np.float32))


def test_sizes_that_the_file_declares_wrongly_do_not_count() -> None:
    model = parsed(S + "q = Neg(x) y = Neg(q)")
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("q", onnx.TensorProto.FLOAT, [7, 7, 4]))
    assert shape(read_simplified(model), "q") == "float[b, s, 4]"


def test_unnamed_sizes_of_inputs_are_followed() -> None:
    model = parsed(S + "q = Neg(x) r = Range(zero, s, one) y = Cast<to = 1>(r)")
    for value in model.graph.input:
        for dim in list(value.type.tensor_type.shape.dim)[:2]:
            dim.Clear()
    read = read_simplified(model)
    assert [str(term.type) for term in read.inputs] == ["float[unk_1, unk_2, 4]", "int64[unk_3, unk_4]"]
    assert shape(read, "r") == "int64[unk_4]"
    assert read.at_shapes({"x": (2, 3, 4), "ids": (2, 3)}).sizes["unk_4"] == 3


def test_types_of_operators_without_a_definition_follow_from_our_types_of_their_inputs() -> None:
    n = symbol("n")
    values, places = TensorType("float", (n, 7)), TensorType("int64", (n, 2))
    gather = onnx.helper.make_node("GatherElements", ["v", "p"], ["y"], axis=1)
    assert node_types(gather, 17, (values, places)) == (TensorType("float", (n, 2)),)
    assert node_types(gather, 17, (values, TensorType("int64", None))) == (TensorType("float", None),)
    assert node_types(gather, 17, (None, places)) == (None,)
    endless = onnx.helper.make_node("Einsum", ["v"], ["y"], equation="a-")
    assert node_types(endless, 17, (values,)) == (None,)


@pytest.mark.parametrize(("direction", "directions"), [("forward", 1), ("bidirectional", 2)])
def test_the_quantized_recurrent_layer_of_the_runtime(direction: str, directions: int) -> None:
    """ONNX's inference does not know it."""
    rng = np.random.default_rng(0)
    arrays = {"w": rng.integers(-9, 9, (directions, 4, 12)).astype(np.int8), "s": np.full(directions, 0.1, np.float32)}
    arrays |= {"r": rng.integers(-9, 9, (directions, 3, 12)).astype(np.int8), "z": np.zeros(directions, np.int8)}
    layer = onnx.helper.make_node(
        "DynamicQuantizeLSTM", ["x", "w", "r", "", "", "", "", "", "s", "z", "s", "z"], ["l"], domain="com.microsoft",
        hidden_size=3, direction=direction,
    )  # fmt: skip
    x, y = (onnx.helper.make_tensor_value_info(n, 1, s) for n, s in (("x", ["t", "b", 4]), ("y", None)))
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = onnx.helper.make_graph([layer, onnx.helper.make_node("Relu", ["l"], ["y"])], "g", [x], [y], tensors)
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    found = read_simplified(model)
    assert str(found.outputs[0].type) == f"float[t, {directions}, b, 3]"
    (result,) = session(model).run(None, {"x": np.ones((5, 2, 4), np.float32)})
    assert result.shape == (5, directions, 2, 3)


def test_the_shape_of_what_is_not_zero_in_a_scalar_is_open() -> None:
    """ONNX says (0, n), and ONNX Runtime gives (1, n)."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float x) => (int64[?] shape, int64 size)'
        "{ found = NonZero(x) turned = Transpose(found) shape = Shape(turned) size = Size(found) }"
    )
    feeds = {"x": np.array(3, np.float32)}
    expected, found = (session(m).run(None, feeds) for m in (model, write_model(read_simplified(model))))
    assert [v.tolist() for v in found] == [v.tolist() for v in expected] == [[1, 1], 1]


def test_what_is_never_negative() -> None:
    """Whatever the sizes are, from 0 on: (n - 1) // 2 may be -1, and so may its sum with another one be -2."""
    n, m = symbol("n"), symbol("m")
    rows, columns = floor_div(n - 1, 2) + 1, floor_div(floor_div(m - 1, 2), 3) + 1
    sure = [n, n * m + 3, rows, rows * columns, 2 * rows * n + columns, floor_div(n, m), floor_div(n + 5, 3) - 1]
    unsure = [n - 1, floor_div(n - 1, 2), rows + columns - 1, rows * columns - 1, n - m, floor_div(n, 2) - 1]
    for size in sure:
        assert is_never_negative(size)
        for a in range(6):
            for b in range(size != floor_div(n, m) or 1, 6):
                assert evaluate(size, {"n": a, "m": b}) >= 0  # type: ignore[operator]
    assert not any(map(is_never_negative, unsure))


def test_sizes_that_meet_in_a_concat_are_equal_where_it_is_defined() -> None:
    body = (
        "u = Slice(x, zeros, four, axis) c = Concat<axis = 0>(x, u) t = Transpose<perm = [0, 2, 1]>(x) "
        "p = MaxPool<kernel_shape = [1], strides = [2]>(t) q = Concat<axis = 1>(t, p) y = Neg(q)"
    )
    model = read_simplified(parsed(body))
    s = symbol("s")
    assert shape(model, "q") == "float[b, 8, s]"
    assert model.assumed_sizes["q"] == {frozenset({s, floor_div(s - 1, 2) + 1})}
    assert model.assumed_sizes["c"] == {frozenset({s, frozenset({s, 4})})}
