"""Truth values, comparisons and casts as files state them; ONNX Runtime judges both sides."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from superopt.ir.infer import make
from superopt.ir.operator import IllTyped
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, new_model, read_model, write_model
from tests.support.runtime_oracle import round_trip


def parsed(opset: int, node: str, dtype: str = "bool") -> onnx.ModelProto:
    interface = f"(float[2, 3] x, float[3] z, int64[2, 3] n, bool[2, 3] p, bool[1] q, string[2] s) => ({dtype}[] y)"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {interface} {{ y = {node} }}')
    used = set(model.graph.node[0].input)
    inputs = [value for value in model.graph.input if value.name in used]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.graph.output[0].type.tensor_type.ClearField("shape")
    return model


def read(model: onnx.ModelProto) -> Term:
    round_trip(model)
    return read_model(model).outputs[0]


@pytest.mark.parametrize(
    ("opset", "node", "dtype"),
    [
        (7, "Not(p)", "bool"),
        (7, "And(p, q)", "bool"),
        (7, "Or(p, q)", "bool"),
        (7, "Xor(p, q)", "bool"),
        (7, "Equal(n, n)", "bool"),
        (7, "Equal(p, q)", "bool"),
        (11, "Equal(x, z)", "bool"),
        (19, "Equal(x, z)", "bool"),
        (7, "Less(x, z)", "bool"),
        (9, "Less(n, n)", "bool"),
        (7, "Greater(x, z)", "bool"),
        (13, "Greater(n, n)", "bool"),
        (12, "LessOrEqual(x, z)", "bool"),
        (16, "GreaterOrEqual(x, z)", "bool"),
        (9, "Where(p, x, z)", "float"),
        (16, "Where(q, n, n)", "int64"),
    ],
)
def test_forms_in_the_opsets(opset: int, node: str, dtype: str) -> None:
    term = read(parsed(opset, node, dtype))
    assert term.op == node.partition("(")[0]
    assert term.attrs == ()
    assert term.type is not None
    assert term.type.dtype == dtype
    assert term.type.rank == 2


@pytest.mark.parametrize("opset", [7, 9, 13, 19, 23])
@pytest.mark.parametrize("to", ["bool", "int8", "int32", "int64", "uint8", "float16", "float", "double"])
def test_casts_in_the_opsets(opset: int, to: str) -> None:
    node = f"Cast<to = {TensorProto.DataType.Value(to.upper())}>"
    for source in "xnp":
        term = read(parsed(opset, f"{node}({source})", to))
        assert term.op == "Cast"
        assert dict(term.attrs) == {"to": to}
        assert term.type == tensor(2, 3, dtype=to)


def test_how_floats_of_8_bits_are_rounded_does_not_matter_elsewhere() -> None:
    term = read(parsed(19, "Cast<saturate = 1, to = 10>(x)", "float16"))
    assert dict(term.attrs) == {"to": "float16"}


@pytest.mark.parametrize("to", ["bfloat16", "float8e4m3fn", "string"])
def test_casts_to_other_types_are_left_to_the_runtime(to: str) -> None:
    model = parsed(19, f"Cast<to = {TensorProto.DataType.Value(to.upper())}>(x)", "float16")
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.DataType.Value(to.upper())
    assert read_model(model).outputs[0].op == "ai.onnx::Cast"


@pytest.mark.parametrize("shape", [[2], None])
def test_a_text_that_becomes_a_number_is_left_to_the_runtime(shape: list[int] | None) -> None:
    graph = helper.make_graph(
        [helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT)],
        "g",
        [helper.make_tensor_value_info("s", TensorProto.STRING, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    assert read_model(model).outputs[0].op == "ai.onnx::Cast"


def test_texts_are_not_compared() -> None:
    assert read_model(parsed(19, "Equal(s, s)")).outputs[0].op == "ai.onnx::Equal"


@pytest.mark.parametrize(
    ("op", "dtypes"),
    [
        ("Where", ("float", "float", "float")),
        ("Where", ("bool", "float", "int64")),
        ("Not", ("int64",)),
        ("And", ("bool", "float")),
        ("Less", ("float", "double")),
        ("Equal", ("string", "string")),
    ],
)
def test_element_types_that_do_not_fit(op: str, dtypes: tuple[str, ...]) -> None:
    with pytest.raises(IllTyped):
        make(op, [var(f"x{k}", tensor(2, dtype=dtype)) for k, dtype in enumerate(dtypes)])


@pytest.mark.parametrize(
    ("opset", "op", "dtypes"),
    [(8, "Where", ("bool", "float", "float")), (11, "LessOrEqual", ("float", "float"))],
)
def test_what_an_opset_cannot_say_is_refused(opset: int, op: str, dtypes: tuple[str, ...]) -> None:
    term = make(op, [var(f"x{k}", tensor(2, dtype=dtype)) for k, dtype in enumerate(dtypes)])
    with pytest.raises(ModelError):
        write_model(new_model([term], opset=opset))


@pytest.mark.parametrize(
    ("source", "to", "value", "expected"),
    [
        (np.int64, "int8", 200, -56),  # the case in the specification
        (np.float32, "int32", -1.9, -1),
        (np.float64, "float16", 1e-9, 0.0),
        (np.float64, "float", 1e300, np.inf),
        (np.float32, "bool", -0.0, 0),
        (np.float32, "bool", 0.1, 1),
    ],
)
def test_casts_of_constants_fold(source: type, to: str, value: float, expected: float) -> None:
    from superopt.evaluate import evaluate

    dtype = {np.int64: "int64", np.float32: "float", np.float64: "double"}[source]
    x = var("x", tensor(1, dtype=dtype))
    (result,) = evaluate([make("Cast", (x,), {"to": to})], {x: np.array([value], source)}, {})
    assert result.tolist() == [expected]
