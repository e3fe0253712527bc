"""Models with exchanged terms: operators that did not change keep their place and names."""

from __future__ import annotations

import time

import numpy as np
import onnx
from onnx import parser

from superopt.ir.infer import make, replace
from superopt.ir.term import Term, topological, var
from superopt.ir.trace import Application, Rewrite, Trace
from superopt.ir.types import tensor
from superopt.onnx_io import Model, new_model, read_model, write_model
from superopt.onnx_io.node_order import in_order
from superopt.onnx_io.provenance import corresponding_terms
from superopt.search.apply import replacements
from tests.support.runtime_oracle import assert_equal, random_feeds, session


def parsed(body: str, opset: int = 17) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {body}')


def made(model: onnx.ModelProto) -> list[str]:
    """Operator and first output of each node, in order."""
    return [f"{node.op_type} {node.output[0]}" for node in model.graph.node]


def named(model: Model, name: str) -> Term:
    return next(term for term, found in model.names.items() if found == name)


# Two towers that take turns in the file; `a` and `p` will be rewritten.
TOWERS = """g (float[2, 2] x) => (float[2, 2] y) {
    a = Neg(x)      p = Tanh(x)
    b = Relu(a)     q = Erf(p)
    c = Exp(b)      r = Sigmoid(q)
    d = Mul(c, b)   s = Sub(r, q)
    y = Add(d, s)
}"""


def test_what_lies_above_a_change_keeps_place_and_name() -> None:
    model = read_model(parsed(TOWERS))
    before = write_model(model)
    x = model.inputs[0]
    change = {named(model, "a"): make("Sum", (x, x)), named(model, "p"): make("MatMul", (x, x))}
    after = write_model(model.with_outputs(replace(model.outputs, change), replaced=change))
    assert made(after)[2:] == made(before)[2:]
    assert [node.op_type for node in after.graph.node][:2] == ["Sum", "MatMul"]


def test_without_being_told_of_the_change_the_graphs_are_compared_from_the_outputs() -> None:
    model = read_model(parsed(TOWERS))
    x = model.inputs[0]
    after = write_model(model.with_outputs(replace(model.outputs, {named(model, "a"): make("Sum", (x, x))})))
    assert [m for m in made(after) if m != "Sum Sum"] == made(write_model(model))[1:]


def test_a_trace_tells_of_several_changes_one_above_the_other() -> None:
    model = read_model(parsed(
        "g (float[2, 2] x) => (float[2, 2] y) { a = Neg(x) b = Neg(a) z = Erf(x) c = Exp(b) d = Neg(c) e = Neg(d) "
        "y = Add(e, z) }"))  # fmt: skip
    leaf = var("leaf", tensor(2, 2))
    double = make("Neg", (make("Neg", (leaf,)),))
    rewrite = Rewrite((double,), (), (make("Identity", (leaf,)),))
    places = [model.inputs[0], named(model, "c")]
    trace = Trace(tuple(Application(rewrite, ((leaf, place),)) for place in places))
    new_b = make("Identity", (model.inputs[0],))
    new_c = Term.of("Exp", (new_b,), {}, named(model, "c").types)
    outputs = (make("Add", (make("Identity", (new_c,)), named(model, "z"))),)
    changed = model.with_outputs(outputs, replacements(trace))
    assert changed.names[new_c] == "c"
    assert changed.names[outputs[0]] == "y"
    assert [name.split()[1] for name in made(write_model(changed))] == ["b", "z", "c", "e", "y"]


def test_a_new_node_comes_just_before_its_first_reader() -> None:
    model = read_model(parsed(TOWERS))
    x = model.inputs[0]
    new = make("Neg", (make("Sum", (x, x)),))
    change = {named(model, "q"): new}
    after = write_model(model.with_outputs(replace(model.outputs, change), replaced=change))
    # Erf is gone, and with it Tanh; what computes q stands where Erf stood, and what that reads before it.
    assert made(after) == ["Neg a", "Relu b", "Sum Sum", "Neg q", "Exp c", "Sigmoid r", "Mul d", "Sub s", "Add y"]


def test_new_nodes_are_called_after_their_rule() -> None:
    model = read_model(parsed(TOWERS))
    x = model.inputs[0]
    new = make("Sum", (x, x))
    change = {named(model, "a"): new}
    after = write_model(model.with_outputs(replace(model.outputs, change), replaced=change), {new: "0a1b2c"})
    assert after.graph.node[0].name == "Sum_0a1b2c"


def test_names_of_nodes_and_notes_stay() -> None:
    proto = parsed(TOWERS)
    for index, node in enumerate(proto.graph.node):
        node.name, node.doc_string = f"node {index}", f"note {index}"
        node.metadata_props.add(key="where", value=str(index))
    model = read_model(proto)
    change = {named(model, "a"): make("Relu", model.inputs)}
    after = write_model(model.with_outputs(replace(model.outputs, change), replaced=change))
    assert [(n.name, n.doc_string, n.metadata_props[0].value) for n in after.graph.node[1:]] == [
        (f"node {k}", f"note {k}", str(k)) for k in range(1, len(proto.graph.node))
    ]


def test_weights_are_folded_when_written_and_the_order_stays() -> None:
    proto = parsed("""g (float[2, 2] x) => (float[2, 2] y)
    <float[2, 2] w = {1, 2, 3, 4}, float[2, 2] v = {5, 6, 7, 9}> {
        t = Transpose<perm = [1, 0]>(w)
        b = Exp(x)
        u = MatMul(t, v)
        a = Neg(x)
        c = MatMul(a, u)
        y = Add(c, b)
    }""")
    model = read_model(proto)
    written = write_model(model)
    assert made(written) == ["Exp b", "Neg a", "MatMul c", "Add y"]
    assert [tensor.name for tensor in written.graph.initializer] == ["u"]
    assert len(model.weights) == 2  # writing does not change the model
    feeds = random_feeds(proto)
    np.testing.assert_allclose(session(written).run(None, feeds)[0], session(proto).run(None, feeds)[0], rtol=1e-6)


def test_outputs_keep_their_names_whatever_computes_them() -> None:
    proto = parsed("g (float[2] x) => (float[2] y, float[2] z, float[2] t) { y = Neg(x) t = Neg(y) z = Relu(y) }")
    model = read_model(proto)
    x = model.inputs[0]
    y, z, _ = model.outputs
    swapped = write_model(model.with_outputs((z, y, x)))  # not the same function, but names must follow the outputs
    feeds = {"x": np.float32([1, -2])}
    first, second, third = session(proto).run(None, feeds)
    assert_equal(session(swapped).run(None, feeds), [second, first, third])
    assert [value.name for value in swapped.graph.output] == ["y", "z", "t"]


def test_a_split_in_the_middle() -> None:
    x, w = var("x", tensor(3, 4)), var("w", tensor(4, 7))
    split = make("Split", (make("MatMul", (x, w)),), {"axis": -1, "split": (3, 4)})
    outputs = (make("Neg", (split.out(1),)), split.out(0))
    for opset in (11, 13, 18):
        written = write_model(new_model(outputs, opset=opset))
        feeds = random_feeds(written)
        product = feeds["x"] @ feeds["w"]
        result = session(written).run(None, feeds)
        np.testing.assert_allclose(result[0], -product[:, 3:], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(result[1], product[:, :3], rtol=1e-5, atol=1e-6)


def test_one_output_of_a_split_and_the_split_of_one_output_are_the_same_value() -> None:
    x = var("x", tensor(4))
    split = make("Split", (x,), {"axis": -1, "split": (4,)})
    written = write_model(new_model([make("Add", (split, split.out(0)))]))
    assert [node.op_type for node in written.graph.node] == ["Split", "Add"]
    assert_equal(session(written).run(None, {"x": np.float32([1, 2, 3, 4])}), [np.float32([2, 4, 6, 8])])


def test_closed_form_constants_at_run_time() -> None:
    x = var("x", tensor(1, 2, 3, 3))
    kernel = make("Dirac", (), {"group": 1, "shape": (2, 2, 3, 3)})
    attrs = {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1)}
    written = write_model(new_model([make("Conv", (x, kernel, make("Zeros", (), {"shape": (2,)})), attrs)]))
    feeds = random_feeds(written)
    assert_equal(session(written).run(None, feeds), [feeds["x"]])


def chain(length: int) -> Term:
    term = var("x", tensor(2))
    for k in range(length):
        term = make("Tanh" if k % 2 else "Neg", (term,))
    return term


def test_deep_graphs() -> None:
    """No recursion anywhere, and no quadratic time."""
    start = time.process_time()
    deep = new_model([chain(20_000)])
    written = write_model(deep)
    assert len(written.graph.node) == 20_000
    model = read_model(written)
    assert model.outputs == deep.outputs
    bottom = next(term for term in topological(model.outputs) if term.op == "Neg")
    change = {bottom: make("Relu", bottom.inputs)}
    changed = model.with_outputs(replace(model.outputs, change), replaced=change)
    assert made(write_model(changed))[1:] == made(written)[1:]
    assert time.process_time() - start < 30  # seconds of CPU time; about 2


def test_a_replacement_that_contains_what_it_replaces() -> None:
    x = var("x", tensor(2))
    old = make("Relu", (x,))
    before = (make("Neg", (old,)),)
    change = {old: make("Relu", (old,))}
    after = replace(before, change)
    assert corresponding_terms(before, after, change)[before[0]] is after[0]


def test_order_follows_positions_where_sources_allow() -> None:
    x = var("x", tensor(2))
    a, b = make("Neg", (x,)), make("Tanh", (x,))
    c = make("Add", (a, b))
    assert in_order([c], {b: 0, a: 1, c: 2}) == [b, a, c]
    assert in_order([c], {c: 0, a: 1}) == [b, a, c]  # b is new and goes where its reader wants to be: first
    assert in_order([c], {}) == [a, b, c]
