"""Simplification while reading: the known branch of an If takes its place.

Every model is written and compared with the original in ONNX Runtime, bit for bit.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from superopt.onnx_io import read_simplified, write_model
from tests.support.runtime_oracle import session
from tests.support.simplified import parsed, simplified

X = np.float32([[1, -2, np.nan], [np.inf, 0.5, -0.0]])
BRANCHES = "then_branch = a () => ({0} r) {{ {1} }}, else_branch = b () => ({2} s) {{ {3} }}"


def with_if(condition: str, branches: str, result: str = "float[2,3]", opset: int = 17) -> onnx.ModelProto:
    return parsed(f"""g (float[2,3] x, bool c) => ({result} y) <bool yes = {{1}}, bool[1] no = {{0}}, int64 one = {{1}},
        int64 three = {{3}}> {{
        t = Exp(x) {condition} q = If(k) <{branches}> y = Neg(q) }}""", opset)  # fmt: skip


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("k = Identity(yes)", "Sub"),
        ("k = Identity(no)", "Mul"),
        ("k = Not(yes)", "Mul"),
        ("d = Shape(x) w = Gather(d, one) k = Equal(w, three)", "Sub"),
        ("d = Size(x) k = Less(d, three)", "Mul"),
        ("k = Identity(c)", "If"),
    ],
)
def test_conditions(condition: str, left: str) -> None:
    branches = BRANCHES.format("float[2,3]", "r = Sub(t, x)", "float[2,3]", "u = Neg(x) s = Mul(t, u)")
    operators = simplified(with_if(condition, branches), *({"x": X, "c": np.array(c)} for c in (True, False)))
    assert left in operators and ("If" in operators) == (left == "If")


def test_branches_of_other_shapes() -> None:
    branches = BRANCHES.format("float[2,3]", "r = Sub(t, x)", "float[3,2]", "s = Transpose(x)")
    for k, left in (("yes", ["Exp", "Sub", "Neg"]), ("no", ["Transpose", "Neg"])):
        model = with_if(f"k = Identity({k})", branches, "float[a,b]")
        assert simplified(model, {"x": X, "c": np.array(True)}) == left


def test_branches_without_nodes() -> None:
    """Branches may return a captured value, or a weight of their own."""
    model = parsed("""g (float[2] x) => (float[2] y, float[2] z) <bool yes = {1}, bool no = {0}> {
        t = Exp(x)
        y = If(yes) <then_branch = a () => (float[2] t) { }, else_branch = b () => (float[2] s) { s = Neg(x) }>
        z = If(no) <then_branch = d () => (float[2] u) { u = Neg(x) },
                    else_branch = e () => (float[2] w) <float[2] w = {3, 4}> { }> }""")
    written = write_model(read_simplified(model))
    assert [node.op_type for node in written.graph.node] == ["Exp"]
    (y, z) = session(written).run(None, {"x": np.float32([0, 1])})
    np.testing.assert_allclose(y, np.exp(np.float32([0, 1])), rtol=1e-6)
    assert z.tolist() == [3, 4]


def test_names_in_branches_meet() -> None:
    """Two branches with the same names inside, both taken, and a third that stays."""
    branches = BRANCHES.format("float[2]", "v = Exp(x) r = Sub(v, x)", "float[2]", "s = Neg(x)")
    model = parsed(f"""g (float[2] x, bool c) => (float[2] y) <bool yes = {{1}}> {{
        p = If(yes) <{branches}> q = If(yes) <{branches.replace("Exp", "Neg").replace("Sub", "Add")}>
        w = If(c) <{branches.replace("Exp", "Abs")}> m = Add(p, q) y = Add(m, w) }}""")
    operators = simplified(model, *({"x": np.float32([1, -2]), "c": np.array(c)} for c in (True, False)))
    assert operators.count("If") == 1


def test_if_in_if_and_weights_in_branches() -> None:
    inner = "then_branch = p () => (float[2] f) <float[2] w = {5, 6}> { f = Add(v, w) }, " \
            "else_branch = o () => (float[2] h) { h = Neg(v) }"  # fmt: skip
    then = f"v = Mul(x, w2) r = If(yes) <{inner}>"
    model = parsed(f"""g (float[2] x) => (float[2] y) <bool yes = {{1}}> {{
        y = If(yes) <then_branch = a () => (float[2] r) <float[2] w2 = {{3, 4}}> {{ {then} }},
                     else_branch = b () => (float[2] s) {{ s = Neg(x) }}> }}""")
    assert simplified(model, {"x": np.float32([1, -2])}) == ["Mul", "Add"]


def test_random_nodes_of_a_branch_stay_two() -> None:
    branches = BRANCHES.format("float[2]", "v = RandomNormalLike(x) w = RandomNormalLike(x) r = Sub(v, w)",
                               "float[2]", "s = Neg(x)")  # fmt: skip
    model = parsed(f"g (float[2] x) => (float[2] y) <bool yes = {{1}}> {{ y = If(yes) <{branches}> }}")
    assert sorted(simplified(model)) == ["RandomNormalLike", "RandomNormalLike", "Sub"]


def test_a_default_value_is_not_a_constant() -> None:
    branches = BRANCHES.format("float[2]", "r = Exp(x)", "float[2]", "s = Neg(x)")
    model = parsed(f"g (float[2] x, bool k = {{1}}) => (float[2] y) {{ y = If(k) <{branches}> }}")
    if not any(tensor.name == "k" for tensor in model.graph.initializer):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "k"))
    operators = simplified(model, {"x": np.float32([1, 2])}, {"x": np.float32([1, 2]), "k": np.array(False)})
    assert "If" in operators


def test_sequences_pass_through() -> None:
    model = parsed("""g (float[2] x) => (float[2] y) <bool yes = {1}, int64 zero = {0}> {
        q = If(yes) <then_branch = a () => (seq(float[2]) r) { r = SequenceConstruct(x, x) },
                     else_branch = b () => (seq(float[2]) s) { s = SequenceConstruct(x) }>
        m = Identity(q) y = SequenceAt(m, zero) }""")
    assert simplified(model, {"x": np.float32([1, -2])}) == ["SequenceConstruct", "SequenceAt"]
