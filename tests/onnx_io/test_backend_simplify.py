"""Simplification of onnx's own tests of every operator, with their inputs as they are and as constants.

The simplified models must give the same outputs in ONNX Runtime, bit for bit, with its optimizations off.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from superopt.onnx_io import read_bodies, read_simplified, replace_bodies, write_body, write_model


def session(model: onnx.ModelProto) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def with_constants(model: onnx.ModelProto, feeds: dict[str, Any]) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The model with the inputs that can be initializers as such, and the inputs that are left."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.input[:]
    left: dict[str, Any] = {}
    for value in model.graph.input:
        given = feeds[value.name]
        if isinstance(given, np.ndarray) and given.dtype.kind in "biuf" and given.dtype.itemsize in (1, 4, 8):
            changed.graph.initializer.append(numpy_helper.from_array(given, value.name))
        else:
            changed.graph.input.append(value)
            left[value.name] = given
    return changed, left


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list) or isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if one is None or other is None:
        return one is other
    a, b = np.asarray(one), np.asarray(other)
    return a.dtype == b.dtype and a.shape == b.shape and (a.tobytes() == b.tobytes() or a.tolist() == b.tolist())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("constant", [False, True])
def test_every_operator(constant: bool) -> None:
    seen: Counter[str] = Counter()
    for case in collect_testcases(None):
        model, inputs = case.model, case.data_sets[0][0]
        names = [value.name for value in model.graph.input]
        feeds = {
            name: numpy_helper.to_array(given) if isinstance(given, onnx.TensorProto) else given
            for name, given in zip(names, inputs, strict=False)
        }
        if feeds.keys() != set(names):
            continue
        if constant:
            model, feeds = with_constants(model, feeds)
        try:
            expected = session(model).run(None, feeds)
        except Exception:  # noqa: BLE001 - whatever ONNX Runtime does not run
            seen["not run"] += 1
            continue
        terms = read_simplified(model)
        inside = {body.key: write_body(body, body.model) for body in read_bodies(terms)}
        seen["less" if terms.simplified_nodes else "bodies" if inside else "as it was"] += 1
        if terms.simplified_nodes or inside:
            written = write_model(replace_bodies(terms, inside), fold=False)
            assert same(session(written).run(None, feeds), expected), case.name
    assert seen["less"] > 200, seen
