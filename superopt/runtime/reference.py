"""A reference computation: relative to its time, measurements taken at different times are comparable.

Other work on the same core (its other hardware thread, another guest of the host) slows arithmetic by half or more, for
a tenth of a second or for minutes. CPU time does not show this slowdown, but the time of a fixed computation does.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper

from superopt.runtime.sessions import Target, open_session

__all__ = ["reference_seconds"]

_MATRIX_SIZE = 256  # a product takes about a fifth of a millisecond


def reference_seconds() -> float:
    """Run one product of two matrices and return its CPU seconds."""
    run = _reference()
    begun = time.thread_time()
    run()
    return time.thread_time() - begun


@functools.cache
def _reference() -> Callable[[], object]:
    square = np.ones((_MATRIX_SIZE, _MATRIX_SIZE), np.float32)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, square.shape) for name in "xy")
    weight = onnx.numpy_helper.from_array(square, "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "reference", [x], [y], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = open_session(proto, Target("cpu", 1))

    def run() -> object:
        return session.run({"x": square})

    run()  # the first run allocates
    return run
