"""Times of operators from the runtimes' profilers."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from onnx import helper

from superopt.runtime import CannotRun, Target, profile
from tests.support.models import floats, model, weights


@pytest.mark.parametrize("provider", ["cpu", "openvino"])
def test_operators_have_their_times(provider: str) -> None:
    if provider == "openvino" and importlib.util.find_spec("openvino") is None:
        pytest.skip("OpenVINO is not installed")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Softmax", ["t"], ["y"])]
    proto = model(nodes, [floats("x", 64, 64)], [floats("y", 64, 64)], [("w", weights(64, 64))])
    times = profile(proto, {"x": np.ones((64, 64), np.float32)}, Target(provider), 3)
    assert {"MatMul", "Softmax"} <= {"MatMul" if one.operator == "FullyConnected" else one.operator for one in times}
    assert len({one.name for one in times}) == len(times)
    assert all(0 <= one.seconds < 1 for one in times) and sum(one.seconds for one in times) > 0


def test_a_model_that_does_not_run() -> None:
    with pytest.raises(CannotRun):
        profile(b"no model", {}, Target(), 1)
