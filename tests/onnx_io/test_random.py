"""Random graphs: written, run, read back."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.evaluate import constant, evaluate, fold
from superopt.ir.infer import make
from superopt.ir.term import Term, topological, var
from superopt.ir.types import tensor
from superopt.onnx_io import new_model, read_model, write_model
from tests.support.runtime_oracle import assert_equal, random_feeds, session

WEIGHTS: dict[str, np.ndarray] = {}
LEAVES = [
    *(var(name, tensor(3, 3)) for name in "xyz"),
    *(
        constant(np.random.default_rng(k).standard_normal((3, 3)).astype(np.float32), "float", WEIGHTS)
        for k in range(2)
    ),
    make("Eye", (), {"n": 3}),
    make("Zeros", (), {"shape": (3, 3)}),
    make("Ones", (), {"shape": (1, 3)}),
]
UNARY = ["Neg", "Relu", "Tanh", "Sigmoid", "Identity"]
BINARY = ["Add", "Sub", "Mul", "MatMul", "Sum"]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Term, ...]:
    """Outputs, all but perhaps the leaves of 3 by 3, of a graph whose nodes share their operands."""
    made = [leaf for leaf in LEAVES if leaf.type == tensor(3, 3)]
    for _ in range(draw(st.integers(1, 12))):
        a, b = draw(st.sampled_from(made)), draw(st.sampled_from([*made, LEAVES[-1]]))
        kind = draw(st.sampled_from(["unary", "binary", "gemm", "transpose", "join", "frame", "erf"]))
        if kind == "unary":
            made.append(make(draw(st.sampled_from(UNARY)), (a,)))
        elif kind == "binary":
            op = draw(st.sampled_from(BINARY))
            made.append(make(op, (a, a if op == "MatMul" and b is LEAVES[-1] else b)))
        elif kind == "gemm":
            attrs = {"alpha": 0.5, "beta": 2.0, "transA": draw(st.integers(0, 1)), "transB": draw(st.integers(0, 1))}
            made.append(make("Gemm", (a, draw(st.sampled_from(made)), b), attrs))
        elif kind == "transpose":
            made.append(make("Transpose", (a,), {"perm": (1, 0)}))
        elif kind == "join":
            axis, other = draw(st.sampled_from([-1, -2])), draw(st.sampled_from(made))
            joined = make("Concat", (a, other), {"axis": axis})
            split = make("Split", (joined,), {"axis": axis, "split": (3, 3)})
            made += [split.out(0), split.out(1)]
        elif kind == "frame":
            pads = draw(st.tuples(*[st.integers(0, 1)] * 4))
            rows, columns = pads[0], pads[1]
            window = {"axes": (-2, -1), "starts": (rows, columns), "ends": (rows + 3, columns + 3), "steps": (1, 1)}
            made.append(make("Slice", (make("Pad", (a,), {"pads": pads, "value": 0.5}),), window))
        else:
            made.append(Term.of("Atan", (a,), {}, a.types))
    return tuple(draw(st.lists(st.sampled_from(made), min_size=1, max_size=3)))


def has_opaque(outputs: tuple[Term, ...]) -> bool:
    return any(term.op == "Atan" for term in topological(outputs))


def working(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Nodes but for Identity: two outputs that fold to equal constants are one value with two names."""
    return [node for node in model.graph.node if node.op_type != "Identity"]


@settings(max_examples=150, deadline=None)
@given(graphs(), st.sampled_from([9, 11, 13, 18, 21]))
def test_random_graphs(outputs: tuple[Term, ...], opset: int) -> None:
    model = new_model(outputs, WEIGHTS, opset=opset)
    written = write_model(model)
    feeds = random_feeds(written)
    results = session(written).run(None, feeds)
    again = write_model(read_model(written))
    assert len(working(again)) == len(working(written))
    assert_equal(session(again).run(None, feeds), results)
    folded_away = fold(outputs, dict(WEIGHTS))
    assert len([node for node in written.graph.node if node.op_type == "Atan"]) == len(
        {term for term in topological(folded_away) if term.op == "Atan"}
    )
    if not has_opaque(outputs):
        env = {term: feeds[str(term.attr("name"))] for term in model.inputs}
        for got, expected in zip(results, evaluate(outputs, env, WEIGHTS), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("opset", [9, 13])
def test_every_leaf_as_an_output(opset: int) -> None:
    outputs = tuple(leaf for leaf in LEAVES for _ in range(2))
    written = write_model(new_model([*outputs, make("Neg", (LEAVES[0],))], WEIGHTS, opset=opset))
    assert [node.op_type for node in written.graph.node].count("Identity") == len(outputs) - len(LEAVES) + 3
    results = session(written).run(None, random_feeds(written))
    for first, second in zip(results[:-1:2], results[1:-1:2], strict=True):
        np.testing.assert_array_equal(first, second)
