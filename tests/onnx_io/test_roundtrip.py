"""Reading and writing keep the content of a model file: one small model per property, judged by ONNX Runtime."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from superopt.ir.term import topological
from superopt.onnx_io import read_model, read_simplified, write_model
from tests.support.runtime_oracle import assert_equal, random_feeds, round_trip, session


def parsed(body: str, opset: int = 17, ir_version: int = 8, more: str = "") -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}{more}]> {body}')


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_interface_and_metadata() -> None:
    model = parsed(
        "g (float[batch, 3] b, float[batch, 3] a) => (float[batch, 3] z, float[batch, 3] y) "
        "{ z = Sub(a, b) y = Add(a, b) }",
        more=', "com.microsoft": 1, "unused.domain": 7',
    )
    helper.set_model_props(model, {"author": "someone", "zebra": "stripes"})
    model.doc_string, model.producer_name, model.producer_version = "text", "maker", "1.2"
    model.model_version, model.domain = 12, "some.domain"
    model.graph.doc_string = "graph text"
    model.graph.node[0].name, model.graph.node[0].doc_string = "subtract", "a node"
    model.graph.input[0].doc_string = "an input"
    for node in model.graph.node:
        node.ClearField("domain")  # the parser writes an empty one
    assert round_trip(model) == model


def test_an_initializer_that_is_an_input_is_a_default_value() -> None:
    model = parsed("g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    terms = read_model(model)
    assert [str(term.attr("name")) for term in terms.inputs] == ["x", "w"]
    assert not terms.outputs[0].is_constant
    written = round_trip(model)
    x, w = np.float32([1, 1]), np.float32([5, 6])
    assert_equal(session(written).run(None, {"x": x}), [np.float32([2, 3])])
    assert_equal(session(written).run(None, {"x": x, "w": w}), [np.float32([6, 7])])


def test_before_ir_version_4_weights_are_inputs_by_form_only() -> None:
    model = parsed(
        "g (float[2] w, float[2] x, float[2] again, float[2] dead) => (float[2] y) "
        "<float[2] w = {1, 2}, float[2] again = {1, 2}, float[2] dead = {9, 9}> "
        "{ t = Mul(x, w) c = Constant<value_floats = [3.0, 4.0]>() s = Add(c, w) u = Add(t, s) y = Sub(u, again) }",
        opset=12,
        ir_version=3,
    )
    terms = read_model(model)
    assert [str(term.attr("name")) for term in terms.inputs] == ["x"]
    written = write_model(terms)
    assert [value.name for value in written.graph.input] == ["w", "x", "again"]  # what nothing reads is gone
    assert ops(written) == ["Constant", "Mul", "Add", "Sub"]
    feeds = {"x": np.float32([1, 1])}
    assert_equal(session(written).run(None, feeds), session(model).run(None, feeds))


def test_nodes_in_any_order() -> None:
    model = parsed("g (float[2] x) => (float[2] y) { a = Neg(x) b = Relu(a) c = Tanh(x) y = Add(b, c) }")
    shuffled = onnx.ModelProto()
    shuffled.CopyFrom(model)
    del shuffled.graph.node[:]
    shuffled.graph.node.extend(reversed(model.graph.node))
    written = write_model(read_model(shuffled))
    onnx.checker.check_model(written)
    feeds = random_feeds(model)
    assert_equal(session(written).run(None, feeds), session(model).run(None, feeds))


def test_the_order_of_nodes_is_kept() -> None:
    model = parsed(
        "g (float[2] x) => (float[2] y) { c = Tanh(x) a = Neg(x) d = Erf(x) b = Relu(a) e = Add(d, c) y = Add(b, e) }"
    )
    written = round_trip(model)
    assert [list(node.output) for node in written.graph.node] == [list(node.output) for node in model.graph.node]


@pytest.mark.parametrize(("op", "rows"), [("GRU", 9), ("LSTM", 12)])
def test_absent_optional_inputs_and_outputs(op: str, rows: int) -> None:
    model = parsed(
        f"g (float[3, 2, 4] x, float[1, {rows}, 4] w, float[1, {rows}, 3] r, float hi) => "
        f"(float[1, 2, 3] last, float[2] c) {{ , last = {op}<hidden_size = 3>(x, w, r) "
        "k = Constant<value_floats = [-1.0, 5.0]>() f = Relu(k) c = Clip(f, , hi) }"
    )
    written = round_trip(model)
    layer = next(node for node in written.graph.node if node.op_type == op)
    assert list(layer.output) == ["", "last"]
    clip = next(node for node in written.graph.node if node.op_type == "Clip")
    assert list(clip.input)[1:] == ["", "hi"]


@pytest.mark.parametrize(("op", "rows"), [("GRU", 9), ("LSTM", 12)])
def test_a_recurrent_operator_of_unknown_shape_keeps_its_hidden_size(op: str, rows: int) -> None:
    model = parsed(
        f"g (float[] x, float[1, {rows}, 4] w, float[1, {rows}, 3] r) => (float[] y) "
        f"{{ h = {op}<hidden_size = 3>(x, w, r) y = Identity(h) }}"
    )
    model.graph.input[0].type.tensor_type.ClearField("shape")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    (layer,) = write_model(read_simplified(model)).graph.node
    assert layer.attribute[0].name == "hidden_size"
    assert layer.attribute[0].i == 3
    assert list(layer.input) == ["x", "w", "r"]
    assert list(layer.output) == ["y"]


@pytest.mark.parametrize("after", ["", ", linear_before_reset = 0", ", linear_before_reset = 1"])
@pytest.mark.parametrize("bias", ["", "b"])
def test_a_recurrent_layer_with_given_states_is_read_and_written(after: str, bias: str) -> None:
    model = parsed(
        "g (float[3, 2, 4] x, float[1, 9, 4] w, float[1, 9, 3] r, float[1, 18] b, float[1, 2, 3] h) => "
        f"(float[3, 1, 2, 3] y, float[1, 2, 3] last) {{ y, last = GRU<hidden_size = 3{after}>(x, w, r, {bias}, , h) }}"
    )
    (node,) = {term.inputs[0] for term in read_model(model).outputs}
    assert node is not None
    assert (node.op, dict(node.attrs)) == ("GRU", {"linear_before_reset": int(after.endswith("1"))})
    written = round_trip(model)
    feeds = random_feeds(model)
    assert_equal(session(written).run(None, feeds), session(model).run(None, feeds))


@pytest.mark.parametrize(
    "more", ['direction = "reverse"', 'activations = ["Relu", "Tanh"]', "clip = 1.0", "linear_before_reset = 2"]
)
def test_a_recurrent_layer_that_the_table_lacks_stays_opaque(more: str) -> None:
    model = parsed(
        "g (float[3, 2, 4] x, float[1, 9, 4] w, float[1, 9, 3] r, float[1, 2, 3] h) => (float[3, 1, 2, 3] y) "
        f"{{ y = GRU<hidden_size = 3, {more}>(x, w, r, , , h) }}"
    )
    (term,) = read_model(model).outputs
    assert "GRU" not in {t.op for t in topological([term])}
    round_trip(model)


def test_unused_outputs_keep_their_names() -> None:
    model = parsed("g (float[4] x) => (float[2] v) { k = Constant<value_ints = [2]>() v, i = TopK(x, k) }")
    assert list(round_trip(model).graph.node[-1].output) == ["v", "i"]


def test_operators_of_foreign_domains() -> None:
    model = parsed(
        "g (float[2, 4] x) => (float[2, 4] y, float[2, 4] z) { y = com.microsoft.Gelu(x) z = com.microsoft.Gelu(x) }",
        more=', "com.microsoft": 1',
    )
    assert len(round_trip(model).graph.node) == 2  # nothing is known of them: never merged


def test_unknown_operators() -> None:
    model = parsed(
        'g (float[2] x) => (float[2] y) { h = my.own.Thing<node = 7, absent = "text", captures = [1, 2],'
        " w = 0.5, e : ints = []>(x, x) y = Relu(h) }",
        more=', "my.own": 3',
    )
    written = write_model(read_model(model))
    assert written.graph.node[0].domain == "my.own"
    attributes = {a.name: helper.get_attribute_value(a) for a in written.graph.node[0].attribute}
    assert attributes == {"node": 7, "absent": b"text", "captures": [1, 2], "w": 0.5, "e": []}
    assert list(written.graph.node[0].input) == ["x", "x"]


def test_attributes_that_compare_equal_are_not_mixed_up() -> None:
    nodes = [
        helper.make_node("Thing", ["x"], [f"y{k}"], domain="my.own", value=value)
        for k, value in enumerate([0.0, -0.0, 1, 1.0, [1, 2], [1.0, 2.0], "a", b"\xff"])
    ]
    outputs = [helper.make_tensor_value_info(f"y{k}", TensorProto.FLOAT, None) for k in range(len(nodes))]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("my.own", 1)])
    written = write_model(read_model(model))
    assert [n.attribute[0].SerializeToString() for n in written.graph.node] == [
        n.attribute[0].SerializeToString() for n in nodes
    ]


def test_local_functions() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "local": 1]> '
        "g (float[n] x) => (float[n] y) { t = local.twice(x) y = local.twice(t) } "
        '<domain: "local", opset_import: ["": 16]> twice (a) => (b) { b = Add(a, a) }'  # of another operator set
    )
    written = round_trip(model)
    assert list(written.functions) == list(model.functions)
    assert read_model(model).outputs[0].type is not None


def test_a_function_may_take_the_place_of_an_operator() -> None:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) } '
        '<domain: "", opset_import: ["": 17]> Relu (a) => (b) { b = Neg(a) }'
    )
    assert read_model(model).outputs[0].op == "ai.onnx::Relu"
    assert ops(write_model(read_model(model))) == ["Relu"]


def test_random_operators_are_not_merged() -> None:
    model = parsed("g (float[64] x) => (float[64] d) { a = RandomNormalLike(x) b = RandomNormalLike(x) d = Sub(a, b) }")
    written = write_model(read_model(model))
    assert ops(written).count("RandomNormalLike") == 2
    assert np.abs(session(written).run(None, {"x": np.zeros(64, np.float32)})[0]).max() > 0


def test_equal_nodes_are_shared() -> None:
    model = parsed("g (float[2] x) => (float[2] y) { a = Erf(x) b = Erf(x) y = Add(a, b) }")
    assert ops(round_trip(model)) == ["Erf", "Add"]


def test_equal_weights_are_shared_and_dead_ones_dropped() -> None:
    model = parsed(
        "g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {1, 2}, float[2] dead = {5, 6}> "
        "{ t = Mul(x, a) y = Add(t, b) }"
    )
    assert [tensor.name for tensor in round_trip(model).graph.initializer] == ["a"]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("g (float[2] x) => (float[2] x) { }", 0),
        ("g (float[2] x) => (float[2] x, float[2] y) { y = Neg(x) }", 1),
        ("g (float[2] x) => (float[2] y, float[2] w) <float[2] w = {1, 2}> { y = Add(x, w) }", 1),
        ("g (float[2] x) => (float[2] y, float[2] w) <float[2] w = {0, 0}> { y = Add(x, w) }", 1),
        ("g (float[2] x) => (float[2] y) { y = Identity(x) }", 1),
        ("g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Neg(x) }", 2),  # one of them is a copy
        ("g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Relu(y) }", 2),
        ("g (float[4] x) => (float[2] b, float[2] a) { a, b = Split<axis = 0>(x) }", 1),
        ("g (float[2] x) => (float[2] y) { y = Constant<value = float[2] {1, 2}>() }", 0),
        ("g (float[2] x) => (float[2] y, float[2] z) { y = Constant<value = float[2] {1, 2}>() z = Identity(y) }", 1),
    ],
)
def test_outputs_that_are_inputs_weights_or_repeated(body: str, count: int) -> None:
    model = parsed(body, opset=13)
    if not model.graph.node and len(model.graph.input) == len(model.graph.output):  # ONNX Runtime wants a node
        assert write_model(read_model(model)) == model
        return
    assert len(round_trip(model).graph.node) == count


def test_an_output_may_be_read_again() -> None:
    model = parsed("g (float[2] x) => (float[2] y, float[2] t) { t = Neg(x) y = Relu(t) }")
    written = round_trip(model)
    assert [list(node.output) for node in written.graph.node] == [["t"], ["y"]]


def test_every_element_type() -> None:
    arrays = {
        "f32": np.float32([1.5, -0.0, np.nan]),
        "f64": np.float64([1, 2]),
        "f16": np.float16([1, 2]),
        "bf16": np.array([1, 3], ml_dtypes.bfloat16),
        "i4": np.array([-8, 7, 3], ml_dtypes.int4),
        "u4": np.array([1, 15], ml_dtypes.uint4),
        "f8": np.array([1, 2], ml_dtypes.float8_e4m3fn),
        "i8": np.int8([-1]),
        "u16": np.uint16([9]),
        "i64": np.int64(5),
        "b": np.array([[True, False]]),
        "c64": np.complex64([1j]),
        "empty": np.zeros((0, 3), np.float32),
        "ones": np.ones((2, 1), ml_dtypes.bfloat16),
    }
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    tensors.append(helper.make_tensor("s", TensorProto.STRING, [2], [b"text", b"\xff"]))
    outputs = [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in tensors]
    graph = helper.make_graph([], "g", [], outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    written = write_model(read_model(model))
    kept = {t.name: t for t in written.graph.initializer}
    for tensor in tensors:
        assert kept[tensor.name].data_type == tensor.data_type
        assert kept[tensor.name].dims == tensor.dims
        assert kept[tensor.name].string_data == tensor.string_data
        assert kept[tensor.name].raw_data == tensor.raw_data


def test_texts() -> None:
    model = parsed(
        'g (string[2] x) => (bool[2] y, string z, string[2] w) <string z = {"mode"}> '
        '{ c = Constant<value_strings = ["text", "b"]>() y = Equal(x, c) w = Identity(c) }',
        opset=19,
    )
    round_trip(model)


def test_forms_of_constants() -> None:
    model = parsed(
        "g (float[2] x, int64[2] i) => (float[2] y, int64[2] j) "
        "{ a = Constant<value_float = 2.5>() b = Constant<value_floats = [1.0, 3.0]>() "
        "c = Constant<value_int = 4>() d = Constant<value_ints = [5, 6]>() "
        "p = Mul(x, a) y = Add(p, b) q = Mul(i, c) j = Add(q, d) }"
    )
    written = round_trip(model)
    assert ops(written) == ["Mul", "Add", "Mul", "Add"]
    assert [tensor.name for tensor in written.graph.initializer] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("as_node", [False, True])
def test_sparse_weights(as_node: bool) -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [3.0, 4.0])
    indices = helper.make_tensor("w_indices", TensorProto.INT64, [2], [1, 4])
    sparse = helper.make_sparse_tensor(values, indices, [2, 3])
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    if as_node:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=sparse))
    value_infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    sparse_initializer = [] if as_node else [sparse]
    graph = helper.make_graph(nodes, "g", value_infos[:1], value_infos[1:], sparse_initializer=sparse_initializer)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    written = round_trip(model, {"x": np.zeros((2, 3), np.float32)})
    assert len(written.graph.sparse_initializer) == len(model.graph.sparse_initializer)


def test_quantised_model() -> None:
    model = parsed(
        "g (float[1, 4] x) => (float[1, 2] y) "
        "<float s = {0.1}, uint8 z = {128}, int8[4, 2] w = {1, -2, 3, -4, 5, -6, 7, 127}, "
        "float sw = {1}, int8 zw = {0}> { q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) "
        "e = DequantizeLinear(w, sw, zw) y = MatMul(d, e) }",
        opset=13,
    )
    written = round_trip(model)
    assert ops(written) == ["QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul"]


def test_sequences_and_optionals() -> None:
    model = parsed(
        "g (float[2] x, float[2] z) => (float[2] y) "
        "{ k = Constant<value_int = 1>() s = SequenceConstruct(x, z) y = SequenceAt(s, k) }"
    )
    round_trip(model)


def test_shapes_computed_at_run_time() -> None:
    model = parsed(
        "g (float[n, 3, m] x) => (float[n, p] y) "
        "{ s = Shape(x) z = Constant<value_ints = [0]>() b = Gather(s, z) "
        "r = Constant<value_ints = [-1]>() t = Concat<axis = 0>(b, r) y = Reshape(x, t) }"
    )
    written = round_trip(model)
    assert "Shape" in ops(written)
    x = np.ones((5, 3, 4), np.float32)
    assert session(written).run(None, {"x": x})[0].shape == (5, 12)


def test_value_infos_of_tensors_that_stay() -> None:
    model = parsed(
        "g (float[2] x) => (float[2] y) <float[2] t, float[2] gone> { t = Neg(x) gone = Erf(x) y = Relu(t) }"
    )
    assert [value.name for value in round_trip(model).graph.value_info] == ["t"]


def test_names_that_terms_use_themselves() -> None:
    model = parsed(
        "g (float[2] Var, float[2] unk_1, float[2] y0) => (float[2] Const) "
        "{ Out = Add(Var, unk_1) Zeros = Neg(y0) Const = Mul(Out, Zeros) }"
    )
    round_trip(model)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 18, 21])
def test_types_are_those_of_the_table_or_of_shape_inference(opset: int) -> None:
    model = parsed(
        "g (float[n, 3] x) => (float[n, 4] y) <float[3, 4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> "
        "{ t = MatMul(x, w) y = Softmax<axis = 1>(t) }",
        opset=opset,
    )
    round_trip(model)
    terms = read_model(model)
    types = [str(term.type) for term in topological(terms.outputs) if term.op != "Const"]
    assert types == ["float[n, 3]", "float[n, 4]", "float[n, 4]"]
