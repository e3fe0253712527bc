"""Bodies of If, Loop and Scan, optimized as graphs of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from superopt.onnx_io import ModelError, read_bodies, read_simplified, replace_bodies, write_body, write_model
from superopt.onnx_io.subgraphs import all_nodes
from superopt.onnx_io.tensor_types import size_symbol
from superopt.optimizer import Result, optimize
from superopt.runtime import Feeds, Timing
from tests.support.models import weights
from tests.support.runtime_oracle import assert_equal, session

SIZE = 48


def timer(ratio: float) -> Any:
    def timed(original: bytes | Path, candidate: bytes | Path, feeds: Feeds, budget_s: float) -> Timing:
        return Timing(ratio, 1.0, ratio, ratio, ratio, ratio, 1.0, 9, "cpu")

    return timed


def parsed(body: str, opset: int = 17, outer: bool = True) -> onnx.ModelProto:
    """A model with the weights W, A and B of a low-rank update."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {body}')
    if outer:
        model.graph.initializer.extend(lora_weights())
    return model


def lora_weights() -> list[onnx.TensorProto]:
    parts = {"W": weights(SIZE, SIZE), "A": weights(SIZE, 8, seed=1), "B": weights(8, SIZE, seed=2)}
    return [numpy_helper.from_array(values, name) for name, values in parts.items()]


def update(x: str, y: str) -> str:
    """y = x W + x A B, three products that the rules make one."""
    return (
        f"base_{y} = MatMul({x}, W) down_{y} = MatMul({x}, A) up_{y} = MatMul(down_{y}, B) {y} = Add(base_{y}, up_{y})"
    )


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in all_nodes(model.graph)]


def improved(model: onnx.ModelProto, rules: Path, *feeds: dict[str, Any], **options: Any) -> Result:
    # Costs are the analytic ones: what is found must not depend on what else this machine does.
    given = {"budget": 5.0, "timer": timer(1.5), "cost": "analytic"}
    result = optimize(model, ep="cpu", rules=rules, **{**given, **options})
    assert result.proto is not None
    onnx.checker.check_model(result.proto)
    assert list(result.proto.graph.input) == list(model.graph.input)
    assert list(result.proto.graph.output) == list(model.graph.output)
    for feed in feeds:
        expected, got = session(model).run(None, feed), session(result.proto).run(None, feed)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    return result


def x_of(rows: int = 4, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, SIZE)).astype(np.float32)


def loop(size: str = f"4,{SIZE}") -> onnx.ModelProto:
    return parsed(f"""g (float[{size}] x, int64 times) => (float[{size}] y, float[k,{size}] all) {{
        y, all = Loop(times, , x) <body = b (int64 i, bool go, float[{size}] a) => (bool on, float[{size}] n,
            float[{size}] o) {{ on = Identity(go) {update("a", "v")} n = Tanh(v) o = Identity(n) }}> }}""")


@pytest.mark.parametrize("size", [f"4,{SIZE}", f"n,{SIZE}"])
def test_the_body_of_a_loop(lora_rules: Path, size: str) -> None:
    model = loop(size)
    feeds = [{"x": x_of(), "times": np.array(n)} for n in (0, 1, 3)]
    result = improved(model, lora_rules, *feeds, shapes={"x": (4, SIZE)})
    assert result.changed
    assert operators(result.proto).count("MatMul") == 1
    body = result.proto.graph.node[-1].attribute[0].g
    assert (list(body.input), list(body.output)) == (
        list(model.graph.node[0].attribute[0].g.input),
        list(model.graph.node[0].attribute[0].g.output),
    )
    assert result.proof is not None and result.proof.steps >= 2
    assert sum(use.count for use in result.rules) == result.proof.steps


def test_operators_of_bodies_are_counted(lora_rules: Path) -> None:
    result = improved(loop(), lora_rules)
    before, after = result.operators_before, result.operators_after
    assert (before["MatMul"], after["MatMul"], before["Loop"], after["Loop"]) == (3, 1, 1, 1)


def test_a_body_that_is_not_faster_is_not_written(lora_rules: Path) -> None:
    result = improved(loop(), lora_rules, timer=timer(0.8))
    assert not result.changed
    assert "also in bodies" not in result.reason
    assert {refusal.candidate for refusal in result.refused} >= {"rewrites in bodies"}


def test_branches(lora_rules: Path) -> None:
    """Both branches and what is around them, with names of the same kind inside and outside."""
    model = parsed(f"""g (float[4,{SIZE}] x, bool c) => (float[4,{SIZE}] y) {{ {update("x", "p")}
        q = If(c) <then_branch = a () => (float[4,{SIZE}] r) {{ {update("p", "r")} }},
                   else_branch = b () => (float[4,{SIZE}] s) {{ e = Tanh(p) {update("e", "s")} }}>
        y = Neg(q) }}""")
    feeds = [{"x": x_of(), "c": np.array(c)} for c in (True, False)]
    result = improved(model, lora_rules, *feeds)
    assert operators(result.proto).count("MatMul") == 3
    assert len(model.graph.initializer) == 3


def test_scan(lora_rules: Path) -> None:
    model = parsed(f"""g (float[4,{SIZE}] h, float[5,4,{SIZE}] xs) => (float[4,{SIZE}] y, float[5,4,{SIZE}] z) {{
        y, ys = Scan<num_scan_inputs = 1, body = b (float[4,{SIZE}] s, float[4,{SIZE}] x) => (float[4,{SIZE}] t,
            float[4,{SIZE}] o) {{ {update("x", "v")} w = Add(v, s) t = Tanh(w) o = Identity(t) }}>(h, xs)
        z = MatMul(ys, W) }}""")
    steps = np.random.default_rng(1).standard_normal((5, 4, SIZE)).astype(np.float32)
    result = improved(model, lora_rules, {"h": x_of(), "xs": steps})
    assert operators(result.proto).count("MatMul") == 2


def test_a_branch_in_a_loop(lora_rules: Path) -> None:
    """The inner branch is searched too; the one with a known condition is gone."""
    model = parsed(f"""g (float[4,{SIZE}] x, int64 times, bool c) => (float[4,{SIZE}] y) <bool yes = {{1}}> {{
        y = Loop(times, , x) <body = b (int64 i, bool go, float[4,{SIZE}] a) => (bool on, float[4,{SIZE}] n) {{
            on = Identity(go)
            d = If(yes) <then_branch = f () => (float[4,{SIZE}] r1) {{ r1 = Tanh(a) }},
                         else_branch = h () => (float[4,{SIZE}] s1) {{ s1 = Neg(a) }}>
            n = If(c) <then_branch = p () => (float[4,{SIZE}] r) {{ {update("d", "r")} }},
                       else_branch = q () => (float[4,{SIZE}] s) {{ s = Neg(d) }}> }}> }}""")
    feeds = [{"x": x_of(), "times": np.array(n), "c": np.array(c)} for n in (0, 2) for c in (True, False)]
    result = improved(model, lora_rules, *feeds)
    assert operators(result.proto).count("If") == 1
    assert operators(result.proto).count("MatMul") == 1


def test_weights_of_the_body_and_of_the_outside(lora_rules: Path) -> None:
    """W belongs to the body, A and B are captured; what is not changed is not copied."""
    model = loop()
    body = model.graph.node[0].attribute[0].g
    body.initializer.append(model.graph.initializer[0])
    del model.graph.initializer[0]
    result = improved(model, lora_rules, {"x": x_of(), "times": np.array(2)})
    assert operators(result.proto).count("MatMul") == 1
    assert len(result.proto.graph.initializer) == 0
    assert len(result.proto.graph.node[0].attribute[0].g.initializer) == 1
    again = improved(parsed(f"""g (float[4,{SIZE}] x, int64 times) => (float[4,{SIZE}] y) {{
        y = Loop(times, , x) <body = b (int64 i, bool go, float[4,{SIZE}] a) => (bool on, float[4,{SIZE}] n) {{
            on = Identity(go) u = Dropout(a) v = MatMul(u, W) n = Tanh(v) }}> }}"""), lora_rules,
        {"x": x_of(), "times": np.array(2)})  # fmt: skip
    assert sorted(operators(again.proto)) == ["Identity", "Loop", "MatMul", "Tanh"]
    assert [tensor.name for tensor in again.proto.graph.initializer] == ["W"]
    assert not again.proto.graph.node[0].attribute[0].g.initializer


def test_a_shape_that_grows() -> None:
    """The body declares the size of the first iteration, on which no rewrite may rely."""
    model = parsed("""g (float[2,3] x, int64 times) => (float[k,3] y) <int64 zero = {0}, int64[1] axis = {0}> {
        y = Loop(times, , x) <body = b (int64 i, bool go, float[2,3] a) => (bool on, float[2,3] n) {
            on = Identity(go) s = Shape(a) r = Gather(s, zero) u = Unsqueeze(r, axis) f = Cast<to = 1>(u)
            p = Add(a, f) n = Concat<axis = 0>(p, x) }> }""", outer=False)  # fmt: skip
    (body,) = read_bodies(read_simplified(model))
    rows = size_symbol(str(size_symbol("a", axis=0)))
    types = ["int64[]", "bool[]", f"float[{rows}, 3]", "float[2, 3]"]
    assert [str(value.type) for value in body.model.inputs] == types
    feeds = {"x": np.ones((2, 3), np.float32), "times": np.array(3)}
    written = put_whole(model)
    assert "Shape" in operators(written)
    assert_equal(session(written).run(None, feeds), session(model).run(None, feeds))


def put_whole(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its bodies read and written, and nothing else done to them."""
    terms = read_simplified(model)
    return write_model(replace_bodies(terms, {body.key: write_body(body, body.model) for body in read_bodies(terms)}))


def test_sizes_that_stay_are_known_inside() -> None:
    model = parsed("""g (float[2,3] x, int64 times) => (float[2,3] y) <int64 one = {1}, int64[1] axis = {0},
        int64[1] two = {2}> { y = Loop(times, , x) <body = b (int64 i, bool go, float a) => (bool on, float n) {
            on = Identity(go) s = Shape(a) r = Gather(s, one) u = Unsqueeze(r, axis)
            t = Concat<axis = 0>(two, u) e = Expand(a, t) d = Neg(e) n = Reshape(d, t) }> }
        """, outer=False)  # fmt: skip
    for value in (*model.graph.node[0].attribute[0].g.input[2:], *model.graph.node[0].attribute[0].g.output[1:]):
        value.type.tensor_type.ClearField("shape")
    feeds = {"x": np.ones((2, 3), np.float32), "times": np.array(3)}
    written = put_whole(model)
    assert sorted(operators(written)) == ["Identity", "Loop", "Neg"]
    assert_equal(session(written).run(None, feeds), session(model).run(None, feeds))


ODD = {
    "a constant as output": """g (bool c, float[2] x) => (float[2] y) <float[2] w = {3, 4}> {
        y = If(c) <then_branch = a () => (float[2] r) { r = Identity(w) },
                   else_branch = b () => (float[2] s) <float[2] v = {5, 6}> { z = Identity(v) s = Identity(z) }> }""",
    "other shapes": """g (bool c, float[2] x) => (float[n] y) { y = If(c) <then_branch = a () => (float[2] r) {
        d = Dropout(x) r = Neg(d) }, else_branch = b () => (float[4] s) { d2 = Identity(x)
        s = Concat<axis = 0>(d2, x) }> }""",
    "a sequence": """g (bool c, float[2] x) => (float[2] y) <int64 zero = {0}> { q = If(c) <
        then_branch = a () => (seq(float[2]) r) { d = Dropout(x) r = SequenceConstruct(d, x) },
        else_branch = b () => (seq(float[2]) s) { e = Neg(x) s = SequenceConstruct(e) }> y = SequenceAt(q, zero) }""",
    "a captured sequence": """g (bool c, float[2] x) => (float[2] y) <int64 zero = {0}> { q = SequenceConstruct(x)
        y = If(c) <then_branch = a () => (float[2] r) { d = Identity(q) r = SequenceAt(d, zero) },
                   else_branch = b () => (float[2] s) { s = Neg(x) }> }""",
    "the output of a branch is the model's": """g (bool c, float[2] x) => (float[2] y, float[2] t) { t = Exp(x)
        y = If(c) <then_branch = a () => (float[2] r) { d = Dropout(t) r = Neg(d) },
                   else_branch = b () => (float[2] s) { s = Identity(t) }> }""",
    "a nested loop": """g (bool c, float[2] x) => (float[2] y) <int64 three = {3}> {
        y = Loop(three, c, x) <body = p (int64 i, bool go, float[2] a) => (bool on, float[2] n) { on = Identity(go)
            m = Loop(three, go, a) <body = q (int64 j, bool go2, float[2] b) => (bool on2, float[2] o) {
                on2 = Identity(go2) d = Identity(b) e = Cast<to = 1>(a) o = Add(d, e) }> n = Tanh(m) }> }""",
    "what a body gives twice": """g (bool c, float[2] x) => (float[2] y, float[k,2] u, float[k,2] v)
        <int64 three = {3}> {
        y, u, v = Loop(three, c, x) <body = p (int64 i, bool go, float[2] a) => (bool on, float[2] n, float[2] o,
            float[2] q) { on = Identity(go) n = Neg(a) o = Identity(a) q = Identity(n) }> }""",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_bodies(text: str) -> None:
    model = parsed(text, outer=False)
    written = put_whole(model)
    onnx.checker.check_model(written)
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": np.float32([1, -2])}
        assert_equal(session(written).run(None, feeds), session(model).run(None, feeds))


def test_a_body_must_not_read_what_it_did_not() -> None:
    model = parsed(ODD["other shapes"], outer=False)
    body = next(iter(read_bodies(read_simplified(model))))
    other = next(iter(read_bodies(read_simplified(parsed(ODD["a nested loop"], outer=False)))))
    with pytest.raises(ModelError):
        write_body(body, other.model)


def test_exactly(lora_rules: Path) -> None:
    """With exact rules only, nothing of this is done but what changes no bit."""
    result = improved(loop(), lora_rules, numerics="exact")
    assert operators(result.proto).count("MatMul") == 3


def test_what_reading_alone_makes_less(lora_rules: Path) -> None:
    """It is proposed where the search finds nothing, and taken unless it is measurably slower."""
    model = parsed("""g (float[2,3] x) => (float[2,3] y) <bool yes = {1}, int64 times = {3}> {
        t = If(yes) <then_branch = a () => (float[2,3] r) { d = Dropout(x) r = Tanh(d) },
                     else_branch = b () => (float[2,3] s) { s = Neg(x) }>
        y = Loop(times, , t) <body = p (int64 i, bool go, float[2,3] c) => (bool on, float[2,3] n) {
            on = Identity(go) s = Shape(c) e = Reshape(c, s) n = Tanh(e) }> }""", outer=False)  # fmt: skip
    feeds = {"x": np.float32([[1, -2, 3], [4, 5, np.nan]])}
    result = improved(model, lora_rules, feeds)
    assert (result.changed, result.reason) == (True, "folding only")
    assert sorted(operators(result.proto)) == ["Identity", "Loop", "Tanh", "Tanh"]
    assert result.rules == []
    assert improved(model, lora_rules, feeds, timer=timer(1.0)).changed
    assert not improved(model, lora_rules, feeds, timer=timer(0.97)).changed
