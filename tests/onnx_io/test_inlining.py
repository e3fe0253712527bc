"""Calls of functions become their nodes, and ONNX Runtime, which does the same on its own, gives the same outputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from superopt.check import DIFFERENT, EQUIVALENT
from superopt.onnx_io import read_model
from superopt.onnx_io.inlining import inlined
from tests.support.checked import checked
from tests.support.function_models import DOUBLING, calling
from tests.support.runtime_oracle import assert_equal, session

SCALED = "F <a: float = 0.5>(x) => (y) { y = LeakyRelu<alpha: float = @a>(x) }"
ONE = "g (float[2, 3] x) => (float[2, 3] y)"
TWO = "g (float[2, 3] x, float[2, 3] t) => (float[2, 3] y)"
BRANCHING = "g (float[2, 3] x, float[2, 3] t, bool c) => (float[2, 3] y)"
BRANCHES = """F (x, c) => (o) { t = Neg(x) o = If(c)
    <then_branch = a () => (float[2, 3] q) { u = Exp(t) q = Add(u, x) },
     else_branch = b () => (float[2, 3] q) { q = Sub(x, t) }> }"""

# The graph, and the functions that it calls.
CASES = {
    "an attribute": (ONE + " { y = l.F<a: float = 2.0>(x) }", SCALED),
    "an attribute with the function's default": (ONE + " { y = l.F(x) }", SCALED),
    "an attribute without a value": (ONE + " { y = l.F(x) }", SCALED.replace(": float = 0.5", "")),
    "attributes handed on": (
        ONE + " { u = l.G<b: float = 3.0>(x) v = l.G(u) y = Add(v, x) }",
        SCALED,
        "G <b>(x) => (y) { t = l.F<a: float = @b>(x) u = l.F(t) y = Sub(u, x) }",
    ),
    "a constant": (ONE + " { y = l.F<k: float = 1.5>(x) }",
                   "F <k>(x) => (y) { c = Constant<value_float: float = @k>() y = Add(x, c) }"),
    "names of the graph": (
        TWO + " <float[2, 3] u = {1, 2, 3, 4, 5, 6}> { v = l.F(x) w = Add(v, t) y = Mul(w, u) }",
        "F (x) => (y) { t = Neg(x) u = Exp(t) y = Add(u, t) }",
    ),
    "one function twice": (ONE + " { a = l.F(x) b = l.F(a) y = l.F(b) }", "F (x) => (y) { t = Neg(x) y = Add(t, x) }"),
    "one operand twice": (ONE + " { y = l.F(x, x) }", "F (a, b) => (y) { t = Neg(b) y = Mul(t, a) }"),
    "bodies in a function": (BRANCHING + " { o = l.F(x, c) v = l.F(o, c) y = Mul(v, t) }", BRANCHES),
    "a call in a body": (
        BRANCHING + """ { o = Neg(x) y = If(c) <then_branch = a () => (float[2, 3] p) { p = l.F(o, c) },
            else_branch = b () => (float[2, 3] r) { u = l.F(t, c) r = Sub(u, o) }> }""",
        BRANCHES,
    ),
    "absent operands": (ONE + " { y = l.F(x) }", "F (x, low, high) => (y) { y = Clip(x, low, high) }"),
    "an operand left out": (ONE + " <float l = {0.1}> { y = l.F(x, , l) }",
                            "F (x, low, high) => (y) { y = Clip(x, low, high) }"),
    "a result left out": (ONE + " { , y = l.F(x) }", "F (x) => (z, y) { z = Exp(x) y = Neg(x) }"),
}  # fmt: skip


def model_of(graph: str, *functions: str, opset: int = 18, domain: str = "l") -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["": 18, "l": 1]> {graph}'
    for function in functions:
        text += f' <domain: "{domain}", opset_import: ["": {opset}, "l": 1]> {function}'
    return parser.parse_model(text)


@pytest.mark.parametrize("name", CASES)
def test_the_runtime_computes_the_same(name: str) -> None:
    model = model_of(*CASES[name])
    before = model.SerializeToString()
    written = inlined(model)
    onnx.checker.check_model(written, full_check=True)
    assert not written.functions and model.SerializeToString() == before
    rng = np.random.default_rng(0)
    feeds = {value.name: rng.standard_normal((2, 3)).astype(np.float32) for value in model.graph.input}
    for choice in (False, True) if "c" in feeds else (None,):
        if choice is not None:
            feeds["c"] = np.array(choice)
        assert_equal(session(written).run(None, feeds), session(model).run(None, feeds))


KEPT = {
    "another operator set": model_of(ONE + " { y = l.F(x) }", "F (x) => (y) { y = Neg(x) }", opset=17),
    "an operator's name": model_of(ONE + " { y = HardSwish(x) }", "HardSwish (x) => (y) { y = Neg(x) }", domain=""),
    "an operand as a result": model_of(ONE + " { , y = l.F(x) }", "F (x) => (x, y) { y = Neg(x) }"),
    "one result twice": model_of(ONE + " { y, z = l.F(x) }", "F (x) => (y, y) { y = Neg(x) }"),
    "too many operands": model_of(TWO + " { y = l.F(x, t) }", "F (x) => (y) { y = Neg(x) }"),
    "an unknown attribute": model_of(ONE + " { y = l.F<b: float = 1.0>(x) }", "F (x) => (y) { y = Neg(x) }"),
    "a graph": model_of(
        "g (float[2, 3] x, bool c) => (float[2, 3] y) "
        "{ t = Neg(x) y = l.F<b: graph = b () => (float[2, 3] q) { q = Exp(t) }>(c) }",
        "F <b>(c) => (y) { y = If<then_branch: graph = @b, else_branch: graph = @b>(c) }",
    ),
    "no end": calling(*DOUBLING),
}


@pytest.mark.parametrize("name", KEPT)
def test_others_stay(name: str) -> None:
    model = KEPT[name]
    written = inlined(model)
    assert list(written.functions) == list(model.functions)
    assert list(written.graph.node) == list(model.graph.node)


def test_overloads_are_functions_of_their_own() -> None:
    model = model_of(ONE + " { t = l.F(x) y = l.F(t) }", "F (x) => (y) { y = Neg(x) }", "F (x) => (y) { y = Exp(x) }")
    model.functions[1].overload = model.graph.node[1].overload = "other"
    assert [node.op_type for node in inlined(model).graph.node] == ["Neg", "Exp"]


def test_a_function_stays_beside_others() -> None:
    model = model_of(ONE + " { t = l.F(x) y = l.G(t) }", "F (x) => (y) { y = Neg(x) }", "G (x) => (y) { y = Exp(x) }")
    model.functions[1].opset_import[0].version = 17
    assert [output.op for output in read_model(model).outputs] == ["l::G"]
    assert [node.op_type for node in inlined(model).graph.node] == ["Neg", "G"]


def test_a_model_is_equal_to_its_inlined_form() -> None:
    gelu = "F (x) => (y) { e = Erf(x) o = Constant<value_float: float = 1.0>() f = Add(e, o) y = Mul(x, f) }"
    called = model_of("g (float[n, 4] x) => (float[n, 4] y) { y = l.F(x) }", gelu)
    written = model_of("g (float[n, 4] x) => (float[n, 4] y) <float one = {1.0}> "
                       "{ e = Erf(x) f = Add(one, e) y = Mul(f, x) }")  # fmt: skip
    assert checked(called, written, 5).verdict == EQUIVALENT
    called.functions[0].node[0].op_type = "Tanh"
    assert checked(called, written, 5).verdict == DIFFERENT
