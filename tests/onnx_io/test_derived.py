"""Operators that have an entry in the registry and nothing else are read and written by their schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest

from superopt.evaluate import evaluate
from superopt.ir.infer import make
from superopt.ir.notation import parse_terms
from superopt.ir.operator import OPERATORS, register
from superopt.ir.term import Term, topological, var
from superopt.ir.types import TensorType
from superopt.onnx_io import ModelError, Unwritable, is_writable, new_model, read_model, write_model
from superopt.ops.definition import broadcast
from superopt.ops.entry import entry
from tests.support.registration import unregistered_afterwards
from tests.support.simplified import parsed

X = var("x", TensorType("float", (2, 3, 4)))


def unknown(g: Any, xs: Any, attrs: Any, shape: Any, i: Any) -> Any:
    return g.apply("unknown", broadcast(xs[0], i))


def same_shape(shapes: Any, attrs: Any, need: Any) -> Any:
    return (shapes[0],)


ENTRIES = (
    entry("Sinh", 1, 1, meaning=unknown),
    entry("Shrink", 1, 1, "bias=0.0 lambd=0.5", meaning=unknown),
    entry("Hardmax", 1, 1, "axis=-1", shape=same_shape, meaning=unknown),
    entry("Mean", 1, None, meaning=unknown),
    entry("OneInput", 1, 1, "times=2", meaning=unknown),  # of no specification
    entry("Scaled", 1, 2, "scale=0.5 heads mode=fast", meaning=unknown, domain="com.microsoft"),
    entry("Custom", 1, 1, "sizes", meaning=unknown, domain="my.domain"),
)


DEFAULTS = {operator.name: operator.defaults for operator in ENTRIES}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with unregistered_afterwards():
        register(ENTRIES)
        yield


def term(name: str, inputs: int = 1, **attrs: Any) -> Term:
    return Term.of(name, (X,) * inputs, {**DEFAULTS[name], **attrs}, (X.type,))


TERMS = (
    term("Sinh"),
    term("Shrink", lambd=1.5),
    term("Hardmax", axis=-2),
    term("Mean", inputs=3),
    term("OneInput", times=7),
    term("Scaled", inputs=2, heads=4),
    term("Custom", sizes=(1, 2)),
)


@pytest.mark.parametrize("opset", [13, 17, 23])
@pytest.mark.parametrize("wanted", TERMS, ids=[t.op for t in TERMS])
def test_what_is_written_is_read_again(wanted: Term, opset: int) -> None:
    model = write_model(new_model((wanted,), opset=opset))
    (node,) = model.graph.node
    assert (node.op_type, node.domain) == (wanted.op, OPERATORS[wanted.op].domain)
    assert read_model(model).outputs == (wanted,)


@pytest.mark.parametrize(
    ("opset", "node", "expected"),
    [
        (9, "Shrink(x)", term("Shrink")),
        (9, "Shrink<lambd = 0.25, bias = 1.0>(x)", term("Shrink", bias=1.0, lambd=0.25)),
        (13, "Hardmax<axis = 0>(x)", term("Hardmax", axis=-3)),
        (13, "Hardmax(x)", term("Hardmax")),
        (17, "com.microsoft.Scaled<heads = 2>(x)", term("Scaled", heads=2)),
        (17, "com.microsoft.Scaled<heads = 2, scale = 2.0, mode = \"exact\">(x, x)",
         term("Scaled", inputs=2, heads=2, scale=2.0, mode="exact")),
    ],
)  # fmt: skip
def test_defaults_are_filled_in_and_axes_count_from_the_end(opset: int, node: str, expected: Term) -> None:
    body = f"g (float[2, 3, 4] x) => (float[2, 3, 4] y) {{ y = {node} }}"
    assert read_model(parsed(body, opset)).outputs == (expected,)


@pytest.mark.parametrize(
    "node",
    [
        "Shrink<other = 1.0>(x)",  # an attribute that nobody knows
        "Shrink<lambd = 1>(x)",  # of another type
        "Shrink(x, x)",  # more inputs than there are
        "com.microsoft.Scaled(x)",  # without an attribute that has no default
        "com.microsoft.Scaled<heads = 2, extra = 0>(x)",
        "other.domain.Scaled<heads = 2>(x)",
        "Scaled<heads = 2>(x)",
    ],
)
def test_nodes_that_state_more_stay_opaque(node: str) -> None:
    body = f"g (float[2, 3, 4] x) => (float[2, 3, 4] y) {{ y = {node} }}"
    assert read_model(parsed(body, 17)).outputs[0].op not in OPERATORS


def test_older_opsets_have_no_newer_operators() -> None:
    assert not is_writable(term("Shrink"), 8) and is_writable(term("Shrink"), 9)
    with pytest.raises(ModelError, match=r"opset 8 has no Shrink \(new in 9\)"):
        write_model(new_model((term("Shrink"),), opset=8))


@pytest.mark.parametrize("opset", [13, 20])
def test_element_types_are_those_of_the_opset(opset: int) -> None:
    """ReduceMax of bool is new in opset 20. A file that has it before that is copied, not understood."""
    most = make("ReduceMax", (var("x", TensorType("bool", (2, 3))),), {"axes": (-1,), "keepdims": 1}, "bool")
    body = "g (bool[2, 3] x) => (bool[2, 1] y) { y = ReduceMax<axes = [1]>(x) }"
    if opset < 18:
        assert read_model(parsed(body, opset)).outputs[0].op not in OPERATORS
        with pytest.raises(Unwritable, match="opset 13 has no ReduceMax of bool"):
            write_model(new_model((most,), opset=opset))
    else:
        assert write_model(new_model((most,), opset=opset)).graph.node[0].op_type == "ReduceMax"


@pytest.mark.parametrize(("alpha", "dtype"), [(0.1, "double"), (0.5, "double"), (0.1, "float")])
def test_an_attribute_keeps_the_digits_of_double_numbers(alpha: float, dtype: str) -> None:
    """A file has attributes in single precision."""
    x = var("x", TensorType(dtype, (3,)))
    model = new_model((make("LeakyRelu", (x,), {"alpha": alpha}),))
    if dtype == "double" and alpha == 0.1:
        with pytest.raises(Unwritable, match=r"rounds 0\.1 to single"):
            write_model(model)
    else:
        write_model(model)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ('Gelu[approximate="none"](x)', "com.microsoft::Gelu"),
        ('Gelu[approximate="tanh"](x)', "com.microsoft::FastGelu"),
        ("RMSNormalization[axis=-1, epsilon=0.125](x, g)", "::SimplifiedLayerNormalization"),
    ],
)
def test_the_runtime_has_operators_that_an_opset_lacks(text: str, node: str) -> None:
    """Written in an earlier opset they give the outputs that their definition gives, in a runtime."""
    types = {"x": TensorType("float", (3, 4)), "g": TensorType("float", (4,))}
    (made,) = parse_terms(text, types)
    assert is_writable(made, 17) and not is_writable(made, 17, standard=True) and is_writable(made, 23, standard=True)
    inputs = [term for term in topological((made,)) if term.op == "Var"]
    written = write_model(new_model((made,), opset=17))
    assert [f"{one.domain}::{one.op_type}" for one in written.graph.node] == [node]
    rng = np.random.default_rng(0)
    feeds = {str(i.attr("name")): rng.standard_normal(types[str(i.attr("name"))].shape).astype("f4") for i in inputs}
    session = onnxruntime.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
    (ours,) = evaluate([made], {i: feeds[str(i.attr("name"))] for i in inputs}, {})
    np.testing.assert_allclose(session.run(None, feeds)[0], ours, rtol=2e-6, atol=2e-6)


def test_another_axis_has_no_substitute() -> None:
    x, g = var("x", TensorType("float", (3, 4))), var("g", TensorType("float", (3, 4)))
    assert not is_writable(make("RMSNormalization", (x, g), {"axis": -2, "epsilon": 0.125}), 17)
    assert not is_writable(make("RMSNormalization", (x, g), {"axis": -1, "epsilon": 0.125}), 17)
