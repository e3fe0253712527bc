"""The opsets that can say a random use of an operator."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx

from superopt.ir.infer import OPERATORS
from superopt.ir.term import CLOSED_FORM
from tests.support.semantic_cases.case import Case

__all__ = ["OPSETS", "first_opset", "first_version"]

# Those that are tried: every one that changed an operator of the table, from the first that is read.
OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 22, 23)


@cache
def first_version(op: str) -> int:
    """The opset that brought the operator, if not an older one than is read; ONNX Runtime's own are in all."""
    if OPERATORS[op].domain or not onnx.defs.has(op):
        return OPSETS[0]
    return max(OPSETS[0], min(s.since_version for s in onnx.defs.get_all_schemas_with_history() if _is(s, op)))


def _is(schema: onnx.defs.OpSchema, op: str) -> bool:
    return schema.name == op and schema.domain == ""


def _first_of_resize(op: str, attrs: dict[str, Any]) -> int:
    scales, transformation = attrs["scales"], attrs["coordinate_transformation_mode"]
    if op == "ResizeLinear":
        if transformation != "asymmetric":
            return 11
        return OPSETS[0] if min(scales) >= 1 else 10  # as Upsample
    repeats = all(isinstance(scale, int) for scale in scales) and attrs["nearest_mode"] == "round_prefer_floor"
    return OPSETS[0] if repeats and transformation == "half_pixel" else 11


def first_opset(op: str, case: Case) -> int:
    """The first opset that can say it: that of the operator, or a later one that brought what the case asks for."""
    attrs, arrays = case.attrs, [array for array in case.arrays if array is not None]
    since = 0
    match op:
        case _ if op in CLOSED_FORM:
            return OPSETS[0]  # as a weight
        case "Resize" | "ResizeLinear":
            return _first_of_resize(op, attrs)
        case "ArgMax" | "ArgMin" if attrs["select_last_index"]:
            since = 12
        case "PadCopy":
            return 19 if attrs["mode"] == "wrap" else OPSETS[0]
        case "QuantizeLinear" | "DequantizeLinear" if attrs["axis"] != -1 or arrays[1].size > 1:
            since = 13
        case "Gelu" if attrs["approximate"] == "none":
            return OPSETS[0]  # as ONNX Runtime's own
        case _ if attrs.get("axes") == ():
            return OPSETS[0]  # as Identity
        case "GroupNormalization":
            since = 21  # had another scale before
        case "DepthToSpace" if attrs["mode"] != "DCR":
            since = 11
        case "Slice" if set(attrs["steps"]) != {1}:
            since = 10
        case "MaxPool" if set(attrs["dilations"]) != {1}:
            since = 10
        case "AveragePool" if set(attrs["dilations"]) != {1}:
            since = 19
        case "Reshape" if attrs["allowzero"] and 0 in attrs["shape"]:
            since = 14
        case "Softmax" | "LogSoftmax" if max(arrays[0].shape[attrs["axis"] % arrays[0].ndim + 1 :], default=1) > 1:
            since = 13
        case "Min" | "Max" if len({array.shape for array in arrays}) > 1:
            since = 8
        case "Pow" if arrays[0].dtype != arrays[1].dtype:
            since = 12
        case "Clip" if arrays[0].dtype != "float32" or attrs["bound_low"] > attrs["bound_high"]:
            since = 11
    return max(since, first_version(op))
