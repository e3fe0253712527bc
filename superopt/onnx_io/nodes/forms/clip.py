"""Clip: its bounds are constant inputs, or attributes before opset 11."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from superopt.evaluate import numpy_dtype
from superopt.ir.term import Attr
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import NodeView, Unreadable

_NUMBERS = FLOAT_DTYPES | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


@importer("Clip")
def import_clip(view: NodeView) -> dict[str, Attr]:
    """Read the bounds: constant inputs under other names, or float32 attributes before opset 11.

    Bounds at the ends of the type's range are ONNX's defaults and are read as no bounds. A node with an infinite bound
    stays opaque, because infinite elements distinguish it from the default.
    """
    dtype = view.dtype(0)
    if dtype is None or dtype not in (_NUMBERS if view.opset >= 11 else {"float"}):
        raise Unreadable("element type")
    array_dtype = numpy_dtype(dtype)
    ends: Any = np.iinfo(array_dtype) if array_dtype.kind in "iu" else ml_dtypes.finfo(array_dtype)  # type: ignore[no-untyped-call]
    low = view.real("min", float(ends.min)) if view.opset < 11 else _bound(view, 1)
    high = view.real("max", float(ends.max)) if view.opset < 11 else _bound(view, 2)
    if view.opset < 11 and low is not None and high is not None and low > high:
        raise Unreadable("bounds")  # the specification says from opset 11 on which bound decides
    return {
        "bound_low": -math.inf if low is None or low == ends.min else _exact(low),
        "bound_high": math.inf if high is None or high == ends.max else _exact(high),
    }


def _bound(view: NodeView, index: int) -> int | float | None:
    """Return the value of a constant input, or None if it is absent."""
    array = view.array_input(index)
    if array is None:
        return None
    if array.size != 1 or array.ndim > 1:
        raise Unreadable("bound")
    (value,) = array.reshape(-1)
    return int(value) if array.dtype.kind in "iu" else float(value)


def _exact(bound: int | float) -> float:
    """Return the float64 that is equal to `bound` and to nothing else: no NaN, no -0.0."""
    value = float(bound)
    if not math.isfinite(value) or value != bound or (value == 0 and math.copysign(1, value) < 0):
        raise Unreadable("bound")
    return value


@exporter("Clip")
def export_clip(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the bounds: constant inputs of the operand's type, or float32 attributes before opset 11."""
    low, high = float(e.attrs["bound_low"]), float(e.attrs["bound_high"])
    bounded: dict[str, Any] = {name: end for name, end in (("min", low), ("max", high)) if math.isfinite(end)}
    if e.dtype not in FLOAT_DTYPES and any(end != int(end) for end in bounded.values()):
        raise ModelError(f"Clip of integers needs whole bounds, not {low} and {high}")
    if e.opset < 11:
        if e.dtype != "float":
            raise ModelError(f"opset {e.opset} has no Clip of {e.dtype} (new in 11)")
        if low > high:
            raise ModelError(f"opset {e.opset} has no Clip with its bounds reversed, {low} and {high} (new in 11)")
        return [e.node(**bounded)]
    if "min" in bounded:
        e.append(low, e.dtype)
    elif "max" in bounded:
        e.inputs.append("")
    if "max" in bounded:
        e.append(high, e.dtype)
    return [e.node()]
