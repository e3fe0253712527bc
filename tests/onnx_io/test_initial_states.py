"""Initial states of recurrent layers that are zeros."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.onnx_io import read_simplified, write_model
from tests.support.models import floats, weights
from tests.support.runtime_oracle import assert_equal, session

node = helper.make_node


def _layer(op: str, value: float = 0.0, batch: str = "shape_of_x", hidden: int = 3) -> onnx.ModelProto:
    """Return a layer of two directions whose states are slices of one tensor of computed sizes."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    states = ["first"] if op != "LSTM" else ["first", "second"]
    outputs = ["y", "h"] if op != "LSTM" else ["y", "h", "c"]
    nodes = [
        node("Shape", ["x"], ["shape_of_x"], start=1, end=2),
        node("Concat", ["four", batch, "hidden"], ["sizes"], axis=0),
        node("ConstantOfShape", ["sizes"], ["states"], value=helper.make_tensor("v", TensorProto.FLOAT, [1], [value])),
        node("Split", ["states"], ["first", "second"], axis=0),
        node(op, ["x", "w", "r", "", "", *states], outputs, hidden_size=3, direction="bidirectional"),
    ]
    tensors = {"four": np.int64([4]), "hidden": np.int64([hidden]), "two": np.int64([2])}
    tensors |= {"w": weights(2, gates * 3, 5), "r": weights(2, gates * 3, 3, seed=1)}
    made = helper.make_graph(
        nodes, "g", [floats("x", "steps", "batch", 5)], [floats(name, None, None, None) for name in outputs[1:]],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in tensors.items()],
    )  # fmt: skip
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_states_that_are_zeros_are_absent(op: str) -> None:
    proto = _layer(op)
    written = write_model(read_simplified(proto))
    assert [one.op_type for one in written.graph.node] == [op]
    assert len(written.graph.node[0].input) == 3
    for batch in (1, 4):
        feeds = {"x": np.random.default_rng(batch).normal(size=(6, batch, 5)).astype(np.float32)}
        for one, two in zip(session(proto).run(None, feeds), session(written).run(None, feeds), strict=True):
            assert_equal(one, two)


@pytest.mark.parametrize(("value", "batch"), [(1.0, "shape_of_x"), (-0.0, "shape_of_x"), (0.0, "two")])
def test_other_states_stay(value: float, batch: str) -> None:
    """Ones, negative zeros, and states for two sequences, with which the layer fails for another number."""
    written = write_model(read_simplified(_layer("GRU", value, batch)))
    assert "GRU" in [one.op_type for one in written.graph.node]
    assert len(written.graph.node[-1].input) == 6
