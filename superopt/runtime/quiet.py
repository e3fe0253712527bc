"""Whether the machine has its usual speed just now.

Other work on the same core (the other thread of it, another guest of the host) slows arithmetic by half and more, in
bursts of a tenth of a second to a few seconds. No clock of a process shows it, but a fixed piece of work does.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

__all__ = ["Quiet", "is_quiet"]

_SIZE = 256  # of the matrices that are multiplied: a fifth of a millisecond
_RUNS = 50  # to learn the usual time
_SLOWER = 1.1


class Quiet:
    """Asked again and again, whether `work` takes at most 1.1 times as long as it has ever taken, by `clock`
    (seconds)."""

    def __init__(self, work: Callable[[], object], clock: Callable[[], float] = time.thread_time) -> None:
        self._work, self._clock = work, clock
        self._least = min(self._once() for _ in range(_RUNS))

    def __call__(self) -> bool:
        took = self._once()
        self._least = min(self._least, took)
        return took <= _SLOWER * self._least

    def _once(self) -> float:
        begun = self._clock()
        self._work()
        return self._clock() - begun


def is_quiet() -> bool:
    """Whether one core has its usual speed, by a product of matrices in ONNX Runtime."""
    return _reference()()


@functools.cache
def _reference() -> Quiet:
    square = np.ones((_SIZE, _SIZE), np.float32)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, square.shape) for name in "xy")
    weight = onnx.numpy_helper.from_array(square, "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "reference", [x], [y], [weight])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return Quiet(lambda: session.run(None, {"x": square}))
