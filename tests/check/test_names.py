"""Names propose which tensors are equal, and prove nothing."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from superopt.check import EQUIVALENT, CheckOptions, check, equality
from tests.support.models import floats, model, weights

node = helper.make_node


def _network(first: str = "h", second: str = "g", halved: str = "h") -> onnx.ModelProto:
    """Relu(x w) / 2 + Sigmoid(x v), or with the halves of the other; `first` and `second` name Relu's and Sigmoid's."""
    other = second if halved == first else first
    return model(
        [
            node("MatMul", ["x", "w"], ["a"]),
            node("MatMul", ["x", "v"], ["b"]),
            node("Relu", ["a"], [first]),
            node("Sigmoid", ["b"], [second]),
            node("Mul", [halved, "half"], ["p"]),
            node("Add", ["p", other], ["y"]),
        ],
        [floats("x", "N", 8)],
        [floats("y", "N", 8)],
        [("w", weights(8, 8)), ("v", weights(8, 8, seed=1)), ("half", weights(1) * 0 + 0.5)],
    )


def _rewritten(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return the network with its sum as p (1 + 0) + other: no longer of the same structure."""
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    nodes[-1].input[:] = ["q", nodes[-1].input[1]]
    proto.graph.node.extend(
        [*nodes[:-1], node("Add", ["p", "p"], ["pp"]), node("Mul", ["pp", "half"], ["q"]), nodes[-1]]
    )
    return proto


def test_exchanged_names_do_not_hinder() -> None:
    other = _rewritten(_network("g", "h", halved="g"))
    assert check(_network(), other, CheckOptions(seconds=20)).verdict == EQUIVALENT


def test_equal_names_do_not_prove() -> None:
    assert check(_network(), _rewritten(_network(halved="g")), CheckOptions(seconds=2)).verdict != EQUIVALENT
    assert check(_network(), _rewritten(_network("g", "h")), CheckOptions(seconds=2)).verdict != EQUIVALENT


def test_names_of_tensors_of_other_shapes_do_not_hinder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that moves a Transpose behind other operators leaves their names; values are not needed to see it."""
    monkeypatch.setattr(equality, "Proposals", None)
    names = "abcd"
    squares = [(f"x{name}", f"t{name}", f"s{name}") for name in names]
    ends = [floats(f"x{name}", 4, 8) for name in names], [floats("y", 8, 4)]
    ours = [
        *(node("Transpose", [x], [t], perm=[1, 0]) for x, t, _ in squares),
        *(node("Mul", [t, t], [s]) for _, t, s in squares),
        node("Sum", [s for *_, s in squares], ["sum"]),
        node("Sqrt", ["sum"], ["y"]),
    ]
    theirs = [
        *(node("Mul", [x, x], [s]) for x, _, s in squares),
        node("Sum", [s for *_, s in squares], ["sum"]),
        node("Sqrt", ["sum"], ["root"]),
        node("Transpose", ["root"], ["y"], perm=[1, 0]),
    ]
    assert check(model(ours, *ends), model(theirs, *ends), CheckOptions(seconds=20)).verdict == EQUIVALENT


def test_operands_of_two_operators_correspond_if_one_operator_computes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every LeakyRelu is a PRelu with a constant slope, and no tensor between them has its name."""
    monkeypatch.setattr(equality, "Proposals", None)
    layers, slope = 6, weights(1) * 0 + 0.25

    def network(leaky: bool) -> onnx.ModelProto:
        nodes, last = [], "x"
        for k in range(layers):
            middle, end = (f"m{k}{leaky}", "y" if k == layers - 1 else f"t{k}{leaky}")
            nodes.append(node("MatMul", [last, f"w{k}"], [middle]))
            function = node("LeakyRelu", [middle], [end], alpha=0.25)
            nodes.append(function if leaky else node("PRelu", [middle, "slope"], [end]))
            last = end
        values = [*((f"w{k}", weights(8, 8, seed=k)) for k in range(layers)), ("slope", slope)]
        return model(nodes, [floats("x", "N", 8)], [floats("y", "N", 8)], values if not leaky else values[:-1])

    found = check(network(True), network(False), CheckOptions(seconds=20))
    assert found.verdict == EQUIVALENT
    assert sum(match.by == "kernel" for match in found.correspondences) == layers
