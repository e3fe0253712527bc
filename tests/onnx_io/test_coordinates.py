"""Selections by indices that a model computes, as exporters write masks of attentions for dynamic sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from superopt.ir.term import Term, topological
from superopt.onnx_io import write_model
from superopt.onnx_io.simplify import read_simplified
from tests.support.runtime_oracle import session

SIZES = [(1, 1), (2, 5), (3, 2), (1, 4), (4, 1), (0, 3), (2, 0)]
# b = 0, 1, ... of shape (n, 1, 1), s = 0, 1, ... of shape (m), zeros where they are broadcast
INDICES = """
    sizes = Shape(mask) first = Gather<axis = 0>(sizes, zero) second = Gather<axis = 0>(sizes, one)
    rows = Range(zero, first, one) s = Range(zero, second, one) b = Unsqueeze(rows, behind)
    n = Unsqueeze(first, front) m = Unsqueeze(second, front)
"""


def dynamic(nodes: str, opset: int = 18) -> onnx.ModelProto:
    """A model of mask[n, m]."""
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": {opset}]> g (bool[n, m] mask) => (bool[] y)
        <int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64[1] rest = {{-1}}, int64[1] front = {{0}},
         int64[2] behind = {{1, 2}}, int64[1] last = {{-1}}, int64[2] middle = {{1, 2}}> {{ {INDICES} {nodes} }}
    """)
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    return model


def read(model: onnx.ModelProto) -> Term:
    (output,) = read_simplified(model).outputs
    return output


def operators(model: onnx.ModelProto) -> list[str]:
    return [term.op for term in topological([read(model)]) if term.inputs]


def agree(model: onnx.ModelProto) -> None:
    """Compare the model as read and written with the original at all sizes."""
    written = write_model(read_simplified(model))
    for n, m in SIZES:
        mask = np.random.default_rng(0).integers(0, 2, (n, m)).astype(bool)
        np.testing.assert_array_equal(
            session(written).run(None, {"mask": mask})[0], session(model).run(None, {"mask": mask})[0]
        )


FLAT = "all = Flatten<axis = 2>(mask) {} picked = Gather<axis = 0>(all, place) y = Squeeze(picked, last)"
PAIRS = "c = Expand(b, whole) d = Expand(s, whole) e = Unsqueeze(c, last) f = Unsqueeze(d, last)"


@pytest.mark.parametrize(
    "nodes",
    [
        FLAT.format("by = Mul(b, second) place = Add(by, s)"),
        FLAT.format("by = Mul(second, b) place = Add(s, by)"),
        "wide = Add(b, s) whole = Shape(wide) " + PAIRS + " pair = Concat<axis = -1>(e, f) y = GatherND(mask, pair)",
        "e = Unsqueeze(b, last) y = GatherND(mask, e)",
        "wide = Unsqueeze(mask, last) y = Gather<axis = 1>(wide, s)",
    ],
)
def test_everything_in_order_is_an_unsqueeze(nodes: str) -> None:
    model = dynamic(nodes)
    assert operators(model) in (["Unsqueeze"], ["Unsqueeze", "Squeeze"])
    agree(model)


@pytest.mark.parametrize(
    "nodes",
    [
        FLAT.format("by = Mul(b, first) place = Add(by, s)"),  # a row has m elements
        FLAT.format("by = Mul(b, second) later = Add(by, s) place = Mul(later, one) again = Sub(place, place)").replace(
            "(all, place)", "(all, again)"
        ),
        "wide = Add(b, s) whole = Shape(wide) " + PAIRS + " pair = Concat<axis = -1>(e, e) y = GatherND(mask, pair)",
        "odd = Range(one, first, one) e = Unsqueeze(odd, last) y = GatherND(mask, e)",
        "y = Gather<axis = 1>(mask, rows)",
        "fewer = Div(first, two) half = Range(zero, fewer, one) e = Unsqueeze(half, last) y = GatherND(mask, e)",
        "odd = Range(zero, first, two) e = Unsqueeze(odd, last) y = GatherND(mask, e)",
    ],
)
def test_other_selections_stay(nodes: str) -> None:
    assert any(op.removeprefix("ai.onnx::") in ("Gather", "GatherND") for op in operators(dynamic(nodes)))


def test_an_index_is_never_negative() -> None:
    model = dynamic("c = GreaterOrEqual(s, zero) y = And(mask, c)")
    assert operators(model) in ([], ["Expand"])
    agree(model)
    wide = dynamic("c = GreaterOrEqual(b, zero) y = And(c, mask)")
    assert operators(wide) == ["Expand"]
    agree(wide)


@pytest.mark.parametrize("bound", ["one", "first"])
def test_an_index_may_be_less_than_another_number(bound: str) -> None:
    model = dynamic(f"c = GreaterOrEqual(s, {bound}) y = And(mask, c)")
    assert "GreaterOrEqual" in operators(model)
    agree(model)


def test_sizes_that_may_not_fit_are_left_to_the_runtime() -> None:
    """mask[n, m] and m truths meet at (n, m); n truths do not, unless n = m."""
    assert "And" in operators(dynamic("c = GreaterOrEqual(rows, zero) y = And(mask, c)"))


def test_polynomials_do_not_grow_without_end() -> None:
    """Squares of squares, and a long chain."""
    squares = ["w0 = Add(b, s)", *(f"w{k + 1} = Mul(w{k}, w{k})" for k in range(40))]
    chain = [f"w{k + 1} = Add(w{k}, w{k})" for k in range(40, 3000)]
    model = dynamic(" ".join([*squares, *chain, "c = GreaterOrEqual(w3000, zero) y = And(mask, c)"]))
    assert "And" in operators(model)


@pytest.mark.parametrize("step", ["half = Div({0}, two) {1} = Add({0}, half)", "{1} = Mul({0}, {0})"])
def test_sizes_do_not_grow_without_end(step: str) -> None:
    """q + q / 2 holds q twice, once inside a quotient."""
    steps = [step.format(f"q{k}", f"q{k + 1}").replace("half", f"half{k}") for k in range(60)]
    model = dynamic(" ".join(["q0 = Add(n, m)", *steps, "c = Equal(q60, m) y = And(mask, c)"]))
    assert "And" in operators(model)


def test_a_reshape_that_fails_at_other_sizes_stays() -> None:
    model = dynamic(
        "pair = Concat<axis = 0>(two_rows, rest) a = Reshape(mask, pair) whole = Shape(mask) y = Reshape(a, whole)"
    )
    model.graph.initializer.add(name="two_rows", data_type=7, dims=[1], int64_data=[2])
    assert "Reshape" in operators(model)
