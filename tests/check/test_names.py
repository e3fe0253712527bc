"""Names propose which tensors are equal, and prove nothing."""

from __future__ import annotations

import onnx
from onnx import helper

from superopt.check import EQUIVALENT, CheckOptions, check
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
