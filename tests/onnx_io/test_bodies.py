"""Bodies of control flow: carried whole, and still reading the right outer tensors when those change."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from superopt.ir.infer import make, replace
from superopt.ir.term import Term, topological
from superopt.onnx_io import ModelError, read_model, write_model
from superopt.onnx_io.subgraphs import captured, local_names, rename_captured
from tests.support.runtime_oracle import assert_equal, round_trip, session

HEAD = '<ir_version: 8, opset_import: ["": 17]> '
BRANCHES = "then_branch = a () => (float[2] r) {{ r = {0} }}, else_branch = b () => (float[2] s) {{ s = {1} }}"


def parsed(body: str) -> onnx.ModelProto:
    return parser.parse_model(HEAD + body)


def branches(then: str, otherwise: str) -> str:
    return BRANCHES.format(then, otherwise)


def both_ways(model: onnx.ModelProto, written: onnx.ModelProto | None = None) -> onnx.ModelProto:
    """Round trip with the condition both true and false."""
    written = written or round_trip(model, {"c": np.array(True), "x": np.float32([1, -2])})
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": np.float32([1, -2])}
        assert_equal(session(written).run(None, feeds), session(model).run(None, feeds))
    return written


def test_captured_values() -> None:
    model = parsed(f"""g (bool c, float[2] x) => (float[2] y) <float[2] w = {{3, 4}}> {{
        t = Neg(x)
        y = If(c) <{branches("Add(t, w)", "Mul(x, w)")}>
    }}""")
    node = next(term for term in topological(read_model(model).outputs) if term.op == "If")
    assert node.attr("captures") == ("t", "w", "x")
    assert [i.op for i in node.inputs if i is not None] == ["Var", "Neg", "Const", "Var"]
    assert not node.is_constant
    both_ways(model)


def test_a_body_of_weights_is_not_folded() -> None:
    model = parsed(f"""g (bool c, float[2] x) => (float[2] y) <float[2] w = {{3, 4}}, bool k = {{1}}> {{
        t = If(k) <{branches("Add(w, w)", "Mul(w, w)")}>
        y = Add(t, x)
    }}""")
    assert "If" in [node.op_type for node in both_ways(model).graph.node]


def test_nested_captures() -> None:
    inner = branches("Sub(t, inside)", "Identity(x)")
    model = parsed(f"""g (bool c, float[2] x) => (float[2] y) {{
        t = Neg(x)
        d = Not(c)
        y = If(c) <
            then_branch = p () => (float[2] q) {{ inside = Relu(t) q = If(d) <{inner}> }},
            else_branch = o () => (float[2] u) {{ u = Exp(x) }}
        >
    }}""")
    node = next(term for term in topological(read_model(model).outputs) if term.op == "If")
    assert node.attr("captures") == ("t", "d", "x")
    both_ways(model)


def test_a_captured_value_that_is_merged_with_another() -> None:
    """The second Erf goes; the body must read the first by its name."""
    model = parsed(f"""g (bool c, float[2] x) => (float[2] y) {{
        first = Erf(x)
        second = Erf(x)
        z = Add(first, x)
        y = If(c) <{branches("Add(second, z)", "Sub(second, first)")}>
    }}""")
    assert [node.op_type for node in both_ways(model).graph.node] == ["Erf", "Add", "If"]


def test_a_captured_weight_that_is_merged_with_another() -> None:
    model = parsed(f"""g (bool c, float[2] x) => (float[2] y) <float[2] v = {{3, 4}}, float[2] w = {{3, 4}}> {{
        z = Add(v, x)
        y = If(c) <{branches("Add(w, z)", "Sub(w, w)")}>
    }}""")
    assert [tensor.name for tensor in both_ways(model).graph.initializer] == ["v"]


def test_a_captured_value_that_is_rewritten() -> None:
    model = parsed(f"""g (bool c, float[2] x) => (float[2] y) {{
        t = Neg(x)
        n = Neg(t)
        y = If(c) <{branches("Add(n, t)", "Identity(n)")}>
    }}""")
    terms = read_model(model)
    x = terms.inputs[1]
    double = make("Neg", (make("Neg", (x,)),))
    changed = terms.with_outputs(replace(terms.outputs, {double: x}), replaced={double: x})
    written = write_model(changed)
    assert [node.op_type for node in written.graph.node] == ["Neg", "If"]
    both_ways(model, written)
    sum_of_two = make("Sum", (x, x))
    twice = write_model(terms.with_outputs(replace(terms.outputs, {double: sum_of_two})))
    feeds = {"c": np.array(False), "x": np.float32([1, -2])}
    assert_equal(session(twice).run(None, feeds), [np.float32([2, -4])])


def test_a_name_that_is_used_inside_and_outside() -> None:
    """ONNX does not allow it (nor does ONNX Runtime), so there is no need for a way around it."""
    model = parsed("""g (bool c, float[2] x) => (float[2] y) {
        first = Erf(x)
        second = Erf(x)
        z = Add(first, x)
        y = If(c) <
            then_branch = a () => (float[2] r) { first = Add(second, z) r = Add(first, second) },
            else_branch = b () => (float[2] s) { s = Neg(second) }
        >
    }""")
    assert "single static assignment" in str(read_model(model).checker_error)
    with pytest.raises(ModelError, match="'first' is used both inside and outside"):
        write_model(read_model(model))


def test_loop_and_scan() -> None:
    model = parsed("""g (bool c, float[2] x) => (float[2] y, float[k, 2] all) {
        times = Constant<value_int = 3>()
        step = Exp(x)
        y, all = Loop(times, c, x) <body = b (int64 i, bool go, float[2] a) => (bool on, float[2] n, float[2] o) {
            n = Add(a, step) on = Identity(go) o = Mul(n, step)
        }>
    }""")
    round_trip(model, {"c": np.array(True), "x": np.float32([1, -2])})


def test_a_condition_that_is_absent() -> None:
    model = parsed("""g (float[2] x) => (float[2] y) {
        times = Constant<value_int = 3>()
        y = Loop(times, , x) <body = b (int64 i, bool go, float[2] a) => (bool on, float[2] n) {
            n = Add(a, x) on = Identity(go)
        }>
    }""")
    written = round_trip(model, {"x": np.float32([1, -2])})
    assert list(written.graph.node[-1].input)[1] == ""


def test_a_loop_without_condition_and_states() -> None:
    """ONNX asks for two names of inputs, even if the second is empty."""
    model = parsed("""g (float[2] x) => (float[3, 2] y) {
        times = Constant<value_int = 3>()
        y = Loop(times) <body = b (int64 i, bool go) => (bool on, float[2] n) { n = Add(x, x) on = Identity(go) }>
    }""")
    model.graph.node[-1].input.append("")
    written = round_trip(model, {"x": np.float32([1, -2])})
    assert list(written.graph.node[-1].input)[1:] == [""]
    onnx.checker.check_model(written)


def test_equal_bodies_are_not_merged() -> None:
    text = branches("Add(x, x)", "Neg(x)")
    second = (
        text.replace("(float[2] r)", "(float[2] r2)").replace("r =", "r2 =").replace("(float[2] s)", "(float[2] s2)")
    )
    model = parsed(f"""g (bool c, float[2] x) => (float[2] y) {{
        p = If(c) <{text}> q = If(c) <{second.replace("s =", "s2 =")}> y = Add(p, q)
    }}""")
    assert len(both_ways(model).graph.node) == 3


@pytest.mark.parametrize("name", ["t", "x", "inside"])
def test_renaming_respects_what_the_body_defines(name: str) -> None:
    graph = parser.parse_graph("b () => (float[2] r) { inside = Neg(x) r = Add(inside, t) }")
    assert captured(graph) == ["x", "t"]
    assert local_names(graph) == {"inside", "r"}
    rename_captured(graph, {name: "new"})
    assert captured(graph) == [{"t": "x", "x": "new", "inside": "x"}[name], {"t": "new"}.get(name, "t")]


def test_outer_tensors_that_a_body_gives_out_unchanged() -> None:
    graph = parser.parse_graph("b () => (float[2] x) { inside = Neg(x) }")
    assert captured(graph) == ["x"]
    rename_captured(graph, {"x": "new"})
    assert graph.output[0].name == "new"


def test_terms_of_bodies_are_opaque() -> None:
    model = parsed(f"g (bool c, float[2] x) => (float[2] y) {{ y = If(c) <{branches('Neg(x)', 'Relu(x)')}> }}")
    (node,) = read_model(model).outputs
    assert isinstance(node, Term)
    assert node.op == "If"
    assert {name for name, _ in node.attrs} == {
        "captures",
        "declared",
        "node",
        "proto:else_branch",
        "proto:then_branch",
    }
