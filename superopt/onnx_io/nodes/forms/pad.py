"""Pad, whose modes are two operators here."""

from __future__ import annotations

import math

import onnx

from superopt.onnx_io.model import ModelError
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import Canonical, NodeView, Unreadable, distinct, negative


@importer("Pad")
def import_pad(view: NodeView) -> Canonical:
    """Read pads of some axes as pads of all. Modes other than constants are another operator, without negative pads."""
    mode, operands = view.text("mode", "constant"), view.inputs[:1]
    if view.dtype(0) == "string":
        raise Unreadable("element type")
    pads = _pads(view)
    if mode == "constant":
        value = view.real("value", 0.0) if view.opset < 11 else _pad_value(view)
        if math.isnan(value) or (value == 0 and math.copysign(1, value) < 0):
            raise Unreadable("value")  # NaN is not equal to itself, and -0.0 is equal to 0.0
        return Canonical("Pad", operands, {"pads": pads, "value": value})
    # ONNX Runtime fails if "reflect" would reach beyond the tensor, and repeats it for "wrap".
    known = [isinstance(size, int) for size in view.shape(0) or ()]
    if min(pads, default=0) < 0 or (mode == "wrap" and not all(known)):
        raise Unreadable("pads")
    return Canonical("PadCopy", operands, {"mode": mode, "pads": pads})


def _pads(view: NodeView) -> tuple[int, ...]:
    """Return the pads of all axes."""
    dims, pads = view.rank, view.parameter("pads")
    if pads is None:
        raise Unreadable("pads")
    axes = view.list_input(3) if view.opset >= 18 else None
    axes = distinct(negative(range(dims) if axes is None else axes, dims))
    if len(pads) != 2 * len(axes):
        raise Unreadable("pads")
    full = [0] * (2 * dims)
    for k, axis in enumerate(axes):
        full[axis + dims], full[axis + 2 * dims] = pads[k], pads[len(axes) + k]
    return tuple(full)


def _pad_value(view: NodeView) -> float:
    array = view.array_input(2)
    if array is None:
        return 0.0
    if array.size != 1 or array.dtype.kind in "OSUb":
        raise Unreadable("value")
    value = float(array.reshape(-1)[0])
    if not math.isnan(value) and value != array.reshape(-1)[0].item():
        raise Unreadable("value")  # an integer that no float64 is equal to
    return value


@exporter("Pad")
def export_pad(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the value: a constant input of the operand's type and another name, or an attribute before opset 11."""
    if e.opset < 11:
        return [e.node(mode="constant", value=float(e.attrs["value"]), pads=e.attrs["pads"])]
    e.append(e.attrs["pads"])
    if e.attrs["value"] != 0:
        e.append(e.attrs["value"], e.dtype)
    return [e.node(mode="constant")]


@exporter("PadCopy")
def export_pad_copy(e: NodeExport) -> list[onnx.NodeProto]:
    """Write Pad; the mode "wrap" is new in opset 19."""
    mode = e.attrs["mode"]
    if e.opset < 11:
        return [e.node("Pad", mode=mode, pads=e.attrs["pads"])]
    if mode == "wrap" and e.opset < 19:
        raise ModelError(f"opset {e.opset} has no Pad with mode wrap (new in 19)")
    e.append(e.attrs["pads"])
    return [e.node("Pad", mode=mode)]
