"""Nodes of Einsum, ConvTranspose, ConstantOfShape and Range, and the one form that terms have; ONNX Runtime judges."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.evaluate import evaluate
from superopt.ir.infer import IllTyped, make
from superopt.ir.notation import parse_rule
from superopt.ir.rule import Signature
from superopt.ir.term import var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, new_model, read_model, write_model
from tests.support.canonical_nodes import read, shown
from tests.support.runtime_oracle import round_trip, session
from tests.support.simplified import parsed


@pytest.mark.parametrize(
    ("equation", "operands", "expected"),
    [
        ("ij,jk->ik", "x, w", "ab,bc->ac"),
        ("ij,jk", "x, w", "ab,bc->ac"),
        ("kj,ji", "x, w", "ab,bc->ca"),  # without an arrow the output's letters are sorted
        (" b a , a Z -> Z b ", "x, w", "ab,bc->ca"),
        ("ij->", "x", "ab->"),
        ("ij", "x", "ab->ab"),
        ("ba", "x", "ab->ba"),
        ("ii->i", "s", "aa->a"),
        ("ii", "s", "aa->"),
        ("ij,jk,i->k", "x, w, v", "ab,bc,a->c"),
    ],
)
@pytest.mark.parametrize("opset", [12, 21])
def test_einsum(opset: int, equation: str, operands: str, expected: str) -> None:
    inputs = "float[2, 3] x, float[3, 4] w, float[3, 3] s, float[2] v"
    model = parsed(f'g ({inputs}) => (float[] y) {{ y = Einsum<equation = "{equation}">({operands}) }}', opset)
    assert shown(read(model)) == f"Einsum equation={expected}"


@pytest.mark.parametrize("equation", ["Ij,jk", "bA,AZ"])
def test_upper_case_in_an_implicit_output_is_left_as_it_is(equation: str) -> None:
    """ONNX Runtime fails there, so what is written must fail as well; with an arrow, and inside, it runs."""
    text = f'g (float[2, 3] x, float[3, 4] w) => (float[] y) {{ y = Einsum<equation = "{equation}">(x, w) }}'
    model = parsed(text, 13)
    assert read_model(model).outputs[0].op == "ai.onnx::Einsum"
    with pytest.raises(Exception, match="subscript labels"):
        session(model).run(None, {"x": np.ones((2, 3), np.float32), "w": np.ones((3, 4), np.float32)})
    assert read(parsed(text.replace(equation, "iJ,Jk"), 13)).op == "Einsum"


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "VALID"])
def test_pads_beside_an_automatic_padding_are_left_as_they_are(op: str, auto_pad: str) -> None:
    """ONNX allows one of both, and ONNX Runtime refuses the model."""
    text = "g (float[1, 1, 5, 5] x, float[1, 1, 3, 3] w) => (float[a, b, c, d] y) {{ y = {}<{}>(x, w) }}"
    model = parsed(text.format(op, f'auto_pad = "{auto_pad}", pads = [0, 0, 0, 0]'), 17)
    assert read_model(model).outputs[0].op == f"ai.onnx::{op}"
    with pytest.raises(Exception, match="pads"):
        session(model)


def test_einsum_that_is_left_as_it_is() -> None:
    inputs = "float[2, 3] x, float[1, 4] w"
    for node in ('Einsum<equation = "...i->...">(x)', 'Einsum<equation = "ij,jk->ik">(x, w)'):  # 1 is broadcast to 3
        assert read(parsed(f"g ({inputs}) => (float[] y) {{ y = {node} }}", 12)).op == "ai.onnx::Einsum"


@pytest.mark.parametrize("equation", ["ij->i", "ab->aa", "ab->c", "ab", "ab,b->a", "abc->a"])
def test_equations_that_are_not_canonical_are_refused(equation: str) -> None:
    with pytest.raises(IllTyped):
        make("Einsum", (var("x", tensor(2, 3)),), {"equation": equation})


def test_einsum_is_new_in_opset_12() -> None:
    term = make("Einsum", (var("x", tensor(2, 3)),), {"equation": "ab->b"})
    with pytest.raises(ModelError, match="new in 12"):
        write_model(new_model([term], opset=11))


DEFAULTS = "dilations=(1, 1) group=1 output_padding=(0, 0) pads=(0, 0, 0, 0) strides=(1, 1)"


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("ConvTranspose(x, w)", DEFAULTS),
        ("ConvTranspose(x, w, bias)", DEFAULTS),
        ('ConvTranspose<auto_pad = "VALID", kernel_shape = [3, 2]>(x, w)', DEFAULTS),
        (
            "ConvTranspose<strides = [2, 3], output_padding = [1, 2], dilations = [2, 1], pads = [1, 0, 2, 1]>(x, w)",
            "dilations=(2, 1) group=1 output_padding=(1, 2) pads=(1, 0, 2, 1) strides=(2, 3)",
        ),
        ("ConvTranspose<group = 2>(x, w)", DEFAULTS.replace("group=1", "group=2")),
    ],
)
@pytest.mark.parametrize("opset", [7, 11, 22])
def test_conv_transpose(opset: int, node: str, expected: str) -> None:
    inputs = "float[1, 4, 5, 6] x, float[4, 3, 3, 2] w, float[3] bias"
    model = parsed(f"g ({inputs}) => (float[1, c, a, b] y) {{ y = {node} }}", opset)
    assert shown(read(model)) == f"ConvTranspose {expected}"


@pytest.mark.parametrize(
    "attributes", ['auto_pad = "SAME_UPPER", strides = [2, 2]', "output_shape = [10, 11], strides = [2, 2]"]
)
def test_conv_transpose_with_pads_that_follow_from_a_shape_stays(attributes: str) -> None:
    body = f"(float[1, 4, 5, 6] x, float[4, 3, 3, 2] w) => (float[] y) {{ y = ConvTranspose<{attributes}>(x, w) }}"
    assert read(parsed(f"g {body}", 11)).op == "ai.onnx::ConvTranspose"


WEIGHTS = "int64[2] shape = {2, 3}, int64[0] none = {}, int64 a = {7}, int64 b = {-2}, int64 d = {-3}, int64 z = {0}"


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("ConstantOfShape(shape)", np.zeros((2, 3), np.float32)),
        ("ConstantOfShape<value = float[1] {1.0}>(shape)", np.ones((2, 3), np.float32)),
        ("ConstantOfShape<value = float[1] {-0.25}>(none)", np.float32(-0.25)),
        ("ConstantOfShape<value = int64[1] {-5}>(shape)", np.full((2, 3), -5)),
        ("ConstantOfShape<value = bool[1] {1}>(shape)", np.full((2, 3), True)),
        ("ConstantOfShape<value = double[1] {0.1}>(shape)", np.full((2, 3), 0.1)),
        ("Range(a, b, d)", np.array([7, 4, 1])),
        ("Range(b, a, d)", np.zeros(0, np.int64)),
    ],
)
@pytest.mark.parametrize("opset", [11, 21])
def test_constants_that_nodes_make(opset: int, node: str, expected: np.ndarray) -> None:
    kind = {"f": "float", "d": "double", "l": "int64", "?": "bool"}[np.asarray(expected).dtype.char]
    model = parsed(f"g () => ({kind}[] y) <{WEIGHTS}> {{ y = {node} }}", opset)
    terms = read_model(model)
    assert terms.outputs[0].op in ("Zeros", "Ones", "ConstantOfShape", "Const")
    (array,) = evaluate(terms.outputs, {}, terms.weights)
    assert np.array_equal(array.astype(np.asarray(expected).dtype), expected)
    round_trip(model)


@pytest.mark.parametrize(
    "node",
    ["Range(a, b, z)", "Range(f, f, f)", "ConstantOfShape(big)", "ConstantOfShape<value = float[1] {-0.0}>(shape)"],
)
def test_constants_that_are_left_as_they_are(node: str) -> None:
    weights = f"{WEIGHTS}, int64[2] big = {{1000, 1000}}, float f = {{1.0}}"
    model = parsed(f"g () => (float[] y) <{weights}> {{ y = {node} }}", 13)
    assert read_model(model).outputs[0].op.startswith("ai.onnx::")


def test_values_in_closed_form() -> None:
    filled = make("ConstantOfShape", (), {"shape": (2, 2), "value": -0.75})
    steps = make("Range", (), {"delta": -2, "n": 3, "start": 5}, "int64")
    assert [term.type and term.type.dtype for term in (filled, steps)] == ["float", "int64"]
    assert filled.is_constant
    written = write_model(new_model([filled, steps], opset=9))
    first, second = session(written).run(None, {})
    assert np.array_equal(first, np.full((2, 2), -0.75, np.float32))
    assert np.array_equal(second, np.array([5, 3, 1]))
    assert second.dtype == np.int64


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(0.5, "int64"), (2, "bool"), (-1, "uint8"), (256, "uint8"), (float("nan"), "float"), (0, "string")],
)
def test_values_that_an_element_type_lacks_are_refused(value: float, dtype: str) -> None:
    with pytest.raises(IllTyped):
        make("ConstantOfShape", (), {"shape": (), "value": value}, dtype)


def test_a_constant_of_a_rule_has_the_element_type_of_its_variables() -> None:
    rule = parse_rule("Add(x, x) = Mul(x, ConstantOfShape[shape=[], value=2])")
    assert not rule.reversed().lhs[0].is_constant
    for dtype in ("float", "double", "int32"):
        _, (product,) = rule.instantiate(Signature((("x", (None,)),), dtypes=(("x", dtype),)))
        two = product.inputs[1]
        assert two is not None
        assert two.type == tensor(dtype=dtype)
    assert not parse_rule("ConstantOfShape[shape=s, value=v] = ConstantOfShape[shape=s, value=v]").applicable
