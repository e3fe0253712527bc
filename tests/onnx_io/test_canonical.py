"""Forms that nodes take in the opsets, and the one form that terms have; ONNX Runtime judges both sides."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from superopt.ir.infer import OPERATORS
from superopt.ir.term import CLOSED_FORM
from superopt.onnx_io import read_model, write_model
from tests.support.canonical_nodes import read, shown
from tests.support.runtime_oracle import round_trip
from tests.support.simplified import parsed

WEIGHTS = (
    "int64[2] a02 = {0, 2}, int64[0] none = {}, int64[6] pads = {0, 1, 0, 2, 0, 3}, float v = {1.5}, "
    "int64[1] i1 = {1}, int64[2] i25 = {2, 5}, int64[1] i2 = {2}, int64[1] top = {9223372036854775807}, "
    "int64[1] im1 = {-1}, int64[3] split = {1, 3, 0}, int64[1] low = {-9223372036854775808}"
)


@pytest.mark.parametrize(
    ("opset", "node", "expected"),
    [
        (7, "Squeeze<axes = [0, 2]>(x)", "Squeeze axes=(-3, -1)"),
        (7, "Squeeze(x)", "Squeeze axes=(-3, -1)"),
        (13, "Squeeze(x)", "Squeeze axes=(-3, -1)"),
        (13, "Squeeze(x, a02)", "Squeeze axes=(-3, -1)"),
        (7, "Unsqueeze<axes = [0, 4]>(x)", "Unsqueeze axes=(-5, -1)"),
        (11, "Unsqueeze<axes = [-1, 0]>(x)", "Unsqueeze axes=(-5, -1)"),
        (13, "Unsqueeze(x, a02)", "Unsqueeze axes=(-5, -3)"),
        (7, "Transpose(x)", "Transpose perm=(2, 1, 0)"),
        (7, "Transpose<perm = [0, 2, 1]>(x)", "Transpose perm=(0, 2, 1)"),
        (7, "ReduceSum(x)", "ReduceSum axes=(-3, -2, -1) keepdims=1"),
        (7, "ReduceSum<axes = [1], keepdims = 0>(x)", "ReduceSum axes=(-2,) keepdims=0"),
        (13, "ReduceSum<keepdims = 0>(x, a02)", "ReduceSum axes=(-3, -1) keepdims=0"),
        (13, "ReduceSum(x)", "ReduceSum axes=(-3, -2, -1) keepdims=1"),
        (13, "ReduceSum(x, none)", "ReduceSum axes=(-3, -2, -1) keepdims=1"),
        (13, "ReduceSum<noop_with_empty_axes = 1>(x, none)", "Identity "),
        (7, "Concat<axis = 1>(x, x)", "Concat axis=-2"),
        (11, "Concat<axis = -1>(x, x)", "Concat axis=-1"),
        (7, "Pad<pads = [0, 1, 0, 2, 0, 3]>(x)", "Pad pads=(0, 1, 0, 2, 0, 3) value=0.0"),
        (7, "Pad<pads = [0, 1, 0, 2, -1, 3], value = 2.5>(x)", "Pad pads=(0, 1, 0, 2, -1, 3) value=2.5"),
        (7, 'Pad<pads = [0, 1, 0, 0, 1, 0], mode = "reflect">(x)', "PadCopy mode=reflect pads=(0, 1, 0, 0, 1, 0)"),
        (11, "Pad(x, pads)", "Pad pads=(0, 1, 0, 2, 0, 3) value=0.0"),
        (13, "Pad(x, pads, v)", "Pad pads=(0, 1, 0, 2, 0, 3) value=1.5"),
        (18, "Pad(x, i25, v, i1)", "Pad pads=(0, 2, 0, 0, 5, 0) value=1.5"),
        (18, "Pad(x, i25, , i1)", "Pad pads=(0, 2, 0, 0, 5, 0) value=0.0"),
        (
            7,
            "Slice<starts = [1, 0], ends = [3, 1], axes = [1, 0]>(x)",
            "Slice axes=(-3, -2) ends=(1, 3) starts=(0, 1) steps=(1, 1)",
        ),
        (
            7,
            "Slice<starts = [0, -2], ends = [9, 1000]>(x)",
            "Slice axes=(-3, -2) ends=(1, 4) starts=(0, 2) steps=(1, 1)",
        ),
        (13, "Slice(x, i1, top, i1, i2)", "Slice axes=(-2,) ends=(4,) starts=(1,) steps=(2,)"),
        (13, "Slice(x, im1, top, i1)", "Slice axes=(-2,) ends=(4,) starts=(3,) steps=(1,)"),
        (13, "Slice(x, i2, i1, i1)", "Slice axes=(-2,) ends=(2,) starts=(2,) steps=(1,)"),
        (13, "Slice(x, top, i1, i1, im1)", "Slice axes=(-2,) ends=(1,) starts=(3,) steps=(-1,)"),
        (13, "Slice(x, im1, low, i1, im1)", "Slice axes=(-2,) ends=(-1,) starts=(3,) steps=(-1,)"),
        (13, "Slice(x, i2, i2, i1, im1)", "Slice axes=(-2,) ends=(2,) starts=(2,) steps=(-1,)"),
        (13, "Slice(x, im1, top, i1, im1)", "ai.onnx::Slice "),  # the specification and ONNX Runtime disagree
        (13, "Gemm(m, m)", "Gemm alpha=1.0 beta=1.0 transA=0 transB=0"),
        (13, "Gemm<alpha = 0.1, transB = 1>(m, m)", f"Gemm alpha={float(np.float32(0.1))} beta=1.0 transA=0 transB=1"),
        (13, "Sum(x)", "Sum "),
    ],
)
def test_forms(opset: int, node: str, expected: str) -> None:
    body = f"g (float[1, 4, 1] x, float[3, 3] m) => (float[] y) <{WEIGHTS}> {{ y = {node} }}"
    assert shown(read(parsed(body, opset))) == expected


@pytest.mark.parametrize(
    ("opset", "node", "expected"),
    [
        (7, "y, z, u = Split<axis = 1, split = [1, 2, 3]>(x)", "Split axis=-2 split=(1, 2, 3)"),
        (7, "y, z, u = Split<axis = 1>(x)", "Split axis=-2 split=(2, 2, 2)"),
        (13, "y, z, u = Split<axis = -2>(x)", "Split axis=-2 split=(2, 2, 2)"),
        (13, "y, z, u = Split<axis = 1>(x, s)", "Split axis=-2 split=(1, 2, 3)"),
        (18, "y, z, u = Split<axis = 2, num_outputs = 3>(x)", "Split axis=-1 split=(3, 3, 1)"),
        (18, "y, z, u = Split<axis = 0>(x, at)", "ai.onnx::Split axis=0"),
    ],
)
def test_split(opset: int, node: str, expected: str) -> None:
    body = (
        "g (float[3, 6, 7] x) => (float[] y, float[] z, float[] u) <int64[3] s = {1, 2, 3}, int64[3] one = {1, 1, 1}>"
    )
    model = parsed(f"{body} {{ at = Abs(one) {node} }}", opset)
    assert shown(read(model)) == expected


CONV = [
    ("Conv(x, w)", "Conv dilations=(1, 1) group=1 pads=(0, 0, 0, 0) strides=(1, 1)"),
    ("Conv(x, w, bias)", "Conv dilations=(1, 1) group=1 pads=(0, 0, 0, 0) strides=(1, 1)"),
    ("Conv<kernel_shape = [3, 2], pads = [1, 0, 2, 3]>(x, w)", "Conv dilations=(1, 1) group=1 pads=(1, 0, 2, 3) "
     "strides=(1, 1)"),
    ("Conv<group = 2, strides = [2, 1], dilations = [2, 2]>(x, half)", "Conv dilations=(2, 2) group=2 "
     "pads=(0, 0, 0, 0) strides=(2, 1)"),
    ('Conv<auto_pad = "VALID", strides = [2, 2]>(x, w)', "Conv dilations=(1, 1) group=1 pads=(0, 0, 0, 0) "
     "strides=(2, 2)"),
    ('Conv<auto_pad = "SAME_UPPER">(x, w)', "Conv dilations=(1, 1) group=1 pads=(1, 0, 1, 1) strides=(1, 1)"),
    ('Conv<auto_pad = "SAME_LOWER">(x, w)', "Conv dilations=(1, 1) group=1 pads=(1, 1, 1, 0) strides=(1, 1)"),
    ('Conv<auto_pad = "SAME_UPPER", strides = [3, 2]>(x, w)', "Conv dilations=(1, 1) group=1 pads=(0, 0, 1, 0) "
     "strides=(3, 2)"),
    ('Conv<auto_pad = "SAME_LOWER", strides = [2, 3]>(x, w)', "Conv dilations=(1, 1) group=1 pads=(1, 1, 0, 0) "
     "strides=(2, 3)"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "expected"), CONV)
@pytest.mark.parametrize("opset", [7, 11, 21])
def test_conv(opset: int, node: str, expected: str) -> None:
    inputs = "float[1, 4, 8, 10] x, float[6, 4, 3, 2] w, float[6, 2, 3, 2] half, float[6] bias"
    term = read(parsed(f"g ({inputs}) => (float[1, 6, a, b] y) {{ y = {node} }}", opset))
    assert shown(term) == expected


@pytest.mark.parametrize("node", ["Concat<axis = -3>(x, x)", "Split<axis = -3>(x)", "Squeeze(x, a)", "ReduceSum(x, a)"])
def test_axes_are_written_from_the_front(node: str) -> None:
    """ONNX Runtime keeps its blocked layout through a Concat on axis 1, and leaves it for one on axis -3."""
    written = round_trip(parsed(f"g (float[2, 1, 4, 4] x) => (float[] y) <int64[1] a = {{-3}}> {{ y = {node} }}", 17))
    axes = [a.i for n in written.graph.node for a in n.attribute if a.name == "axis"]
    axes += [n for t in written.graph.initializer for n in numpy_helper.to_array(t).tolist()]
    assert set(axes) == {1}


def test_conv_that_pads_by_a_size_that_is_not_known() -> None:
    """It depends on the size unless the stride is 1."""
    body = "(float[1, 1, h, 8] x, float[1, 1, 3, 4] w) => (float[1, 1, i, j] y) "
    body += '{ y = Conv<auto_pad = "SAME_UPPER", strides = [2, 1]>(x, w) }'
    assert read(parsed(f"g {body}", 11)).op == "ai.onnx::Conv"
    assert dict(read(parsed(f"g {body.replace('h, 8', '7, 8')}", 11)).attrs)["pads"] == (1, 1, 1, 2)
    assert dict(read(parsed(f"g {body.replace('h, 8', '8, 8')}", 11)).attrs)["pads"] == (0, 1, 1, 2)
    body = body.replace("[2, 1]", "[1, 1]")
    assert dict(read(parsed(f"g {body}", 11)).attrs)["pads"] == (1, 1, 1, 2)
    assert dict(read(parsed(f"g {body.replace('UPPER', 'LOWER')}", 11)).attrs)["pads"] == (1, 2, 1, 1)


def test_a_slice_of_a_whole_axis() -> None:
    """A free axis may be sliced by numbers if all of it is taken."""
    body = "g (float[n, 4] x) => (float[n, j] y) {{ s = Constant<value_ints = [0, 1]>() e = Constant<value_ints ="
    body += " [{}, 3]>() y = Slice(x, s, e) }}"
    assert shown(read(parsed(body.format(2**63 - 1), 13))) == "Slice axes=(-1,) ends=(3,) starts=(1,) steps=(1,)"
    assert read(parsed(body.format(5), 13)).op == "ai.onnx::Slice"


NORM = "float[2, 3, 4] x, float[3] s, float[3] b, float[3] m, float[3] v"


@pytest.mark.parametrize(
    ("opset", "attributes", "outputs", "known"),
    [
        (7, "epsilon = 0.5", "y", True),
        (9, "", "y", True),
        (14, "momentum = 0.5", "y", True),
        (15, "training_mode = 0", "y", True),
        (15, "training_mode = 1", "y, a, c", False),
    ],
)
def test_batch_normalization(opset: int, attributes: str, outputs: str, known: bool) -> None:
    attributes = f"<{attributes}>" if attributes else ""
    model = parsed(
        f"g ({NORM}) => (float[2, 3, 4] y) {{ {outputs} = BatchNormalization{attributes}(x, s, b, m, v) }}", opset
    )
    feeds = {value.name: np.ones([d.dim_value for d in value.type.tensor_type.shape.dim], np.float32)
             for value in model.graph.input}  # fmt: skip
    round_trip(model, feeds)
    term = read_model(model).outputs[0]
    if known:
        epsilon = 0.5 if "epsilon" in attributes else float(np.float32(1e-5))
        assert shown(term) == f"BatchNormalization epsilon={epsilon}"
    else:
        assert term.inputs[0] is not None
        assert term.inputs[0].op == "ai.onnx::BatchNormalization"


@pytest.mark.parametrize(
    ("opset", "node"),
    [
        (13, "Squeeze(x, {})"),
        (13, "Unsqueeze(x, {})"),
        (13, "ReduceSum(x, {})"),
        (18, "ReduceMax(x, {})"),
        (13, "Slice(x, {}, l)"),
        (13, "Slice(x, l, {})"),
        (13, "Slice(x, l, l, {})"),
        (13, "Slice(x, l, l, l, {})"),
        (18, "Pad(x, pair, , {})"),
        (13, "Reshape(x, {})"),
        (13, "Expand(x, {})"),
        (13, "Tile(v, {})"),
        (13, "Split(x, {})"),
    ],
)
def test_a_scalar_is_no_list(opset: int, node: str) -> None:
    """A scalar in the place of a list is left to the runtime."""
    weights, op = "int64 n = {1}, int64[1] l = {1}, int64[2] pair = {1, 1}", node.partition("(")[0]
    body = f"g (float[1, 1] x, float[1] v) => (float[] y) <{weights}> {{ y = {node} }}"
    for name, wanted in (("l", op), ("n", f"ai.onnx::{op}")):
        assert read_model(parsed(body.replace("{}", name), opset)).outputs[0].op == wanted


def test_the_shape_of_a_constant_is_no_scalar() -> None:
    for value, constant in (("int64[1] n = {1}", True), ("int64 n = {1}", False)):
        body = f"g (float[1] x) => (float[] y) <{value}> {{ z = ConstantOfShape(n) y = Add(x, z) }}"
        added = read_model(parsed(body, 13)).outputs[0].inputs[1]
        assert added is not None
        assert (added.op in ("Const", "Zeros")) == constant


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Gather(x, {n})", "Gather axis=-2 indices={n}"),
        ("Trilu(x, {n})", "Trilu k=1 upper=1"),
        ("CumSum(x, {n})", "CumSum axis=-1 exclusive=0 reverse=0"),
    ],
)
def test_a_scalar_where_it_is_one(node: str, expected: str) -> None:
    for name, value in (("n", "1"), ("l", "(1,)")):
        weights = "int64 n = {1}, int64[1] l = {1}"
        body = f"g (float[2, 3] x) => (float[] y) <{weights}> {{ y = {node.replace('{n}', name)} }}"
        assert shown(read(parsed(body, 14))) == expected.replace("{n}", value)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("Gather<axis = 1>(x, rows)", "Reshape allowzero=0 shape=(2, 3, 1)"),
        ("Gather<axis = 0>(x, all)", "Reshape allowzero=0 shape=(1, 2, 1, 3)"),
        ("Gather<axis = 0>(x, other)", "Lookup axis=-2"),
        ("GatherND(x, cells)", "Reshape allowzero=0 shape=(2, 3)"),
        ("GatherND(x, all)", "Reshape allowzero=0 shape=(1, 2, 3)"),
        ("GatherND(x, other)", "GatherND "),
        ("GatherND<batch_dims = 1>(x, own)", "GatherND batch_dims=1"),
    ],
)
def test_indices_of_every_place_in_order(node: str, expected: str) -> None:
    weights = (
        "int64[3, 1] rows = {0, -2, 2}, int64[2, 3, 2] cells = {0, 0, 0, -2, 0, 2, 1, 0, 1, 1, -1, -1}, "
        "int64[1, 2, 1] all = {0, 1}, int64[1, 2, 1] other = {1, 0}, int64[2, 1] own = {0, 1}"
    )
    body = f"g (float[2, 3] x) => (float[] y) <{weights}> {{ y = {node} }}"
    assert shown(read(parsed(body, 13))) == expected


def test_sizes_that_do_not_fit_are_left_to_the_runtime() -> None:
    model = parsed("g (float[2, 3] x) => (float[] y) { y = MatMul(x, x) }", 13)
    assert read_model(model).outputs[0].op == "ai.onnx::MatMul"


@pytest.mark.parametrize("op", sorted(set(OPERATORS) - CLOSED_FORM))
def test_operators_without_any_input_are_left_to_the_runtime(op: str) -> None:
    model = parsed("g (float[2, 3] x) => (float[] y) { y = Relu(x) }", 17)
    model.graph.node[0].op_type = op
    del model.graph.node[0].input[:]
    terms = read_model(model)
    assert terms.outputs[0].op == f"ai.onnx::{op}"
    assert terms.checker_error is not None or op in ("Concat", "Sum")


def test_broadcast_of_symbolic_sizes_is_not_guessed() -> None:
    """n may be 1 and m not: the sum's first size is neither."""
    model = parsed("g (float[n, 2] x, float[m, 2] z) => (float[k, 2] y) { y = Add(x, z) }", 13)
    term = read(model)
    assert term.op == "Add"
    assert term.type is not None
    assert term.type.shape is not None
    assert str(term.type.shape[0]) not in ("n", "m")


def test_sizes_at_given_shapes() -> None:
    model = parsed("g (float[n, c, h, w] x) => (float[n, p] y) { t = Flatten(x) u = Relu(x) y = Neg(t) }", 13)
    terms = read_model(model, {"x": (2, 3, 4, 5)})
    assert terms.sizes | {"n": 2, "c": 3, "h": 4, "w": 5} == terms.sizes
    output = terms.outputs[0].type
    assert output is not None
    assert output.concrete() is None  # the terms serve every size
    assert terms.concrete(output).concrete() == (2, 60)


@pytest.mark.parametrize("name", ["?", "-1", "None", "unknown"])
def test_a_size_that_is_called_unknown_is_not_equal_to_another_one(name: str) -> None:
    """Paddle, for one, calls every size that it does not know `?`."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["z"], ["w"])],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [name, 3]) for n in "xz"],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [name, 3]) for n in "yw"],
    )
    first, second = read_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])).inputs
    assert first.type is not None
    assert second.type is not None
    assert first.type.shape != second.type.shape


def test_sizes_that_a_run_needs_to_be_equal_may_have_two_names() -> None:
    """ONNX's inference knows no type of `a`, and so none of what is computed from it."""
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (float[n, 4] x, float[k, 4] z) => (float y) {
            a = com.microsoft.QuickGelu(x)  b = Relu(z)  c = Concat<axis = 1>(a, b)  y = Gemm(c, c) }"""
    )
    (product,) = read_model(model).outputs
    assert product.op == "Gemm"
    assert [str(i.type) for i in product.inputs if i is not None] == ["float[n, 8]"] * 2


def test_types_that_onnx_cannot_infer_are_stated() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> g (float[n, 4] x) => (float[n, 4] y) {
            a = com.microsoft.QuickGelu(x)  b = Relu(a)  y = com.microsoft.QuickGelu(b) }"""
    )
    stated = write_model(read_model(model)).graph.value_info
    assert [(value.name, value.type.tensor_type.shape.dim[0].dim_param) for value in stated] == [("a", "n")]
