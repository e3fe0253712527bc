"""ONNX Runtime as the judge of what a model computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from superopt.onnx_io import read_model, write_model


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    """One thread, no messages."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def random_feeds(model: onnx.ModelProto, seed: int = 0, size: int = 2) -> dict[str, np.ndarray]:
    """Values for the inputs without a default; dynamic sizes are `size`."""
    rng = np.random.default_rng(seed)
    feeds = {}
    for value in session(model).get_inputs():
        shape = [s if isinstance(s, int) else size for s in value.shape]
        kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
        if value.type in kinds:
            feeds[value.name] = rng.standard_normal(shape).astype(kinds[value.type])
        elif value.type == "tensor(bool)":
            feeds[value.name] = rng.integers(0, 2, shape).astype(bool)
        elif value.type == "tensor(string)":
            feeds[value.name] = np.full(shape, "text", dtype=object)
        else:
            kind = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8}[value.type]
            feeds[value.name] = rng.integers(1, 3, shape).astype(kind)
    return feeds


def assert_equal(got: Sequence[Any], expected: Sequence[Any]) -> None:
    """Assert equal values, bit for bit: a round trip changes no computation."""
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def round_trip(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray] | None = None) -> onnx.ModelProto:
    """The model read and written back; checked to have the same interface and to give the same outputs."""
    terms = read_model(model)
    written = write_model(terms)
    assert list(written.graph.input) == list(model.graph.input)
    assert list(written.graph.output) == list(model.graph.output)
    assert list(written.opset_import) == list(model.opset_import)
    if terms.checker_error is None:  # the checker wants a shape for every output; the runtime does not
        onnx.checker.check_model(written)
    feeds = random_feeds(model) if feeds is None else dict(feeds)
    assert_equal(session(written).run(None, feeds), session(model).run(None, feeds))
    return written
