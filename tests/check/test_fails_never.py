"""Operators that may be left out since they never fail: ONNX Runtime runs each of them at all values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as HasNoKernel

from superopt.check.left_out import fails_at_sizes_only, fails_never
from superopt.ops import OPERATORS

ELEMENTWISE = sorted(filter(fails_at_sizes_only, OPERATORS))
TYPES = ("float32", "float64", "float16", "int8", "int64", "uint8", "bool")


def hostile(dtype: str) -> np.ndarray[Any, Any]:
    """Values at which an operator may fail: the ends of a type, infinities, NaN, numbers around 0."""
    kind = np.dtype(dtype)
    if kind == np.bool_:
        return np.array([False, True])
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        return np.array([ends.min, ends.max, 0, 1, 2, 100], kind)
    ends = np.finfo(kind)
    return np.array([ends.min, ends.max, ends.tiny, -0.0, 0, 1, -1, -2.5, 88, np.inf, -np.inf, np.nan], kind)


def test_operators_that_fail_at_values_do_not_count() -> None:
    assert fails_never("Sqrt") and fails_never("Not") and fails_at_sizes_only("Where") and not fails_never("Add")
    for op in ("Div", "Mod", "Cast", "Gather", "Clip", "Expand", "Softmax", "OneHot", "FastGelu", "If"):
        assert not fails_at_sizes_only(op)


@pytest.mark.parametrize("op", ELEMENTWISE)
def test_they_fail_at_no_values(op: str) -> None:
    least, most = OPERATORS[op].inputs
    names = [f"x{k}" for k in range(most or max(least, 2))]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    ran = 0
    for dtype in TYPES:
        types = ["bool", dtype, dtype] if op == "Where" else [dtype] * len(names)
        choices = list(itertools.product(*map(hostile, types)))
        columns = [np.array(column, kind) for column, kind in zip(zip(*choices, strict=True), types, strict=True)]
        elements = [helper.np_dtype_to_tensor_dtype(column.dtype) for column in columns]
        inputs = [
            helper.make_tensor_value_info(name, element, ["n"]) for name, element in zip(names, elements, strict=True)
        ]
        outputs = [onnx.ValueInfoProto(name="y")]
        graph = helper.make_graph([helper.make_node(op, names, ["y"])], "graph", inputs, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        try:
            session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        except (Fail, InvalidGraph, HasNoKernel):  # has no kernel for the type, or the type is invalid: every run tells
            continue
        (found,) = session.run(None, dict(zip(names, columns, strict=True)))
        assert found.shape == columns[0].shape
        ran += 1
    assert ran
