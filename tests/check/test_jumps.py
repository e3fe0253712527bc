"""Weights with other last digits: the same function, unless a function jumps somewhere behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.check.equality import joined, prove_equal
from superopt.onnx_io import read_simplified
from tests.support.models import model
from tests.support.simplified import parsed

WEIGHTS = np.array([3, 5, 7, -2, 9, 11, 4, 6], np.float32)
BELOW = np.nextafter(np.nextafter(WEIGHTS, 0, dtype=np.float32), 0, dtype=np.float32)
BIAS = np.array([1.0, 0.5, 0.8, 0.25], np.float32)


def _equal(left: onnx.ModelProto, right: onnx.ModelProto, seconds: float = 0.5) -> bool:
    """Return True if the models are proven equal, which the certificate shows again.

    Such a proof takes a few hundredths of a second.
    """
    models = joined(read_simplified(left), read_simplified(right))
    found = prove_equal(*models, seconds=seconds)
    return found.certificate is not None and found.certificate.replay(*models)


def _graph(nodes: str, w: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """A model of x[n, 8], whole numbers as real ones, over the weights w."""
    made = parsed(f"g (int64[n, 8] k) => (y) {{ x = Cast<to = 1>(k) {nodes} }}", 17)
    made.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    return made


@pytest.mark.parametrize("nodes", ["y = Add(x, w)", "y = Mul(x, w)", "a = Mul(x, w) y = Softmax(a)"])
def test_a_rounded_weight_may_be_the_same(nodes: str) -> None:
    assert _equal(_graph(nodes, WEIGHTS), _graph(nodes, BELOW), 20.0)


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Add(x, w) y = Floor(a)",
        "a = Mul(x, w) y = Cast<to = 6>(a)",
        "a = Div(x, w) b = Relu(a) c = Add(b, x) y = Ceil(c)",
        "a = Sub(x, w) y = Sign(a)",
        "a = Add(x, w) y = GreaterOrEqual(a, x)",
        "a = Add(x, w) b = Equal(a, x) y = Where(b, x, a)",
        "a = Mul(x, w) y = ArgMax<axis = 1>(a)",
    ],
)
def test_but_not_before_a_jump(nodes: str) -> None:
    """Sums and products of whole numbers are exact, so the jump is at such numbers in one of the models only."""
    assert not _equal(_graph(nodes, WEIGHTS), _graph(nodes, BELOW))


@pytest.mark.parametrize(("last", "named"), [("ArgMax", True), ("Relu", False)])
def test_the_reason_names_the_jump(last: str, named: bool) -> None:
    left, right = (read_simplified(_graph(f"a = Add(x, w) b = Relu(a) y = {last}(b)", w)) for w in (WEIGHTS, BELOW))
    found = prove_equal(*joined(left, right), seconds=2.0)
    assert any(f"roundings before {last}" in reason for *_, reason in found.unproven) == named


def test_a_changed_element_is_no_rounding() -> None:
    """Then the models are not said to be equal but for roundings."""
    w = np.linspace(1, 2, 256).reshape(64, 4).astype(np.float32)
    other = w.copy()
    other[3, 1] += 1
    models = []
    for values in (w, other):
        made = parsed("g (float[n, 64] x) => (y) { a = MatMul(x, w) y = ArgMax<axis = 1>(a) }", 17)
        made.graph.initializer.append(onnx.numpy_helper.from_array(values, "w"))
        models.append(read_simplified(made))
    found = prove_equal(*joined(*models), seconds=5.0)
    assert found.changed and not found.jumps and not any(found.outputs)


def test_roundings_may_be_all_that_tells_models_apart() -> None:
    """The operand of the jump is proven equal. Nothing is certified."""
    left, right = (
        read_simplified(parsed(f"g (float[n, 4] x) => (b, y) <float[4] w = {{{w}}}> {{ {nodes} }}", 17))
        for w, nodes in (
            ("0.1, 0.2, 0.3, 0.7", "s = Mul(w, w) a = Mul(x, s) b = Relu(a) y = ArgMax<axis = 1>(b)"),
            ("0.01, 0.04, 0.09, 0.49", "a = Mul(x, w) b = Relu(a) y = ArgMax<axis = 1>(b)"),
        )
    )
    found = prove_equal(*joined(left, right), seconds=20.0)
    assert found.outputs == (True, False) and found.certificate is None and found.jumps == {"ArgMax"}
    assert [reason for *_, reason in found.unproven] == ["equal but for roundings before ArgMax, which may jump there"]


@pytest.mark.parametrize(
    "nodes", ["b = Relu(a) y = ArgMax<axis = 1>(b)", "s = Shape(a) b = Relu(a) y = Cast<to = 1>(s)"]
)
def test_a_shape_is_no_jump(nodes: str) -> None:
    made = [parsed(f"g (float[n, 4] x) => (b, y) {{ a = Mul(x, w) {nodes} }}", 17) for _ in "ab"]
    for one, w in zip(made, (WEIGHTS[:4], BELOW[:4]), strict=True):
        one.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    assert _equal(*made, 20.0) == ("Shape" in nodes)


@pytest.mark.parametrize("jump", ["y = Cast<to = 6>(p)", "y = Identity(p)"])
@pytest.mark.parametrize("factor", ["c = Mul(tenth, thirty)", "r = Sqrt(three) c = Mul(r, r)"])
def test_a_computed_number_may_be_rounded_unless_before_a_jump(factor: str, jump: str) -> None:
    """In float32, 0.1 * 30 is 3; so is the square of sqrt(3) in real numbers."""
    numbers = "float tenth = {0.1}, float thirty = {30}, float three = {3}, float below = {2.9999998}"
    begin = f"g (int64[n] k) => (y) <{numbers}> {{ x = Cast<to = 1>(k)"
    computed = parsed(f"{begin} {factor} p = Mul(x, c) {jump} }}", 17)
    literal = parsed(f"{begin} p = Mul(x, below) {jump} }}", 17)
    assert _equal(computed, literal, 20.0 if "Identity" in jump else 0.5) == ("Identity" in jump)


def _looked_up(scale: float, bias: np.ndarray[Any, Any]) -> onnx.ModelProto:
    """Rows of a table, one of them zero, times weights of about `scale`, and a bias."""
    rng = np.random.default_rng(0)
    table, w = rng.standard_normal((2000, 8)), scale * rng.standard_normal((8, 4))
    table[1711] = 0
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["e"]),
        helper.make_node("MatMul", ["e", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["y"]),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, 4])
    values = [("table", table.astype(np.float32)), ("w", w.astype(np.float32)), ("b", bias)]
    return model(nodes, [ids], [y], values)


@pytest.mark.parametrize("scale", [1e5, 1e3, 1.0])
def test_a_bias_alone_was_folded_by_no_tool(scale: float) -> None:
    other = BIAS + np.float32(1e-6 * scale)
    assert not _equal(_looked_up(scale, BIAS), _looked_up(scale, other))
