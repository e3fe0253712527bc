"""A reference computation: relative to its time, measurements taken at different times are comparable.

Other work on the same core (its other hardware thread, another guest of the host) slows arithmetic by half or more, for
a tenth of a second or for minutes. CPU time does not show this slowdown, but the time of a fixed computation does.

These functions run in the child process, with ONNX Runtime.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from superopt.runtime.engine import local_run
from superopt.runtime.loadable import CPU, Loadable

__all__ = ["least_reference_seconds", "reference_seconds", "sample_runs"]

_MATRIX_SIZE = 256  # a product takes about a fifth of a millisecond


def sample_runs(
    models: Sequence[tuple[Loadable, Mapping[str, Any]]], count: int, sample_s: float, cpu_clock: bool
) -> list[list[tuple[float, float]]]:
    """Return `count` samples of each model: (seconds of a run, seconds of the reference at that time).

    The models, each with its inputs, are sampled in turns. A sample takes `sample_s` seconds or more. Seconds are CPU
    time with `cpu_clock`; otherwise they are wall time, and those of the reference are 0. The caller uses the smallest
    samples, because disturbances only add time. Raises CannotRun.
    """
    runs = [partial(local_run(model), feeds) for model, feeds in models]
    clock = time.thread_time if cpu_clock else time.perf_counter
    calls: list[int] = []
    for run in runs:
        run()
        begun = time.perf_counter()
        run()
        calls.append(max(1, math.ceil(sample_s / max(time.perf_counter() - begun, 1e-7))))
    samples: list[list[tuple[float, float]]] = [[] for _ in runs]
    for _ in range(count):
        for run, repeats, own in zip(runs, calls, samples, strict=True):
            begun = clock()
            for _ in range(repeats):
                run()
            own.append(((clock() - begun) / repeats, reference_seconds() if cpu_clock else 0.0))
    return samples


def least_reference_seconds(count: int) -> float:
    """Run the reference computation `count` times; return the least CPU seconds."""
    return min(reference_seconds() for _ in range(count))


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
    run = partial(local_run(Loadable(proto.SerializeToString(), CPU, 1)), {"x": square})
    run()  # the first run allocates
    return run
