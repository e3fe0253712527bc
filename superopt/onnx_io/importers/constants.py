"""Constants in closed form: operators whose inputs are constant, so that the term has none."""

from __future__ import annotations

import math

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Unreadable
from superopt.onnx_io.tensors import from_proto

__all__ = ["constant_of_shape", "integer_range"]

_MAX_ELEMENTS = 1024  # the constant is written as a weight, and a big one would make the file bigger


def constant_of_shape(view: NodeView) -> dict[str, Attr]:
    """Read the shape, which is the input, and the value, which is a tensor."""
    shape = view.list_input(0)
    if shape is None or min(shape, default=0) < 0 or math.prod(shape) > _MAX_ELEMENTS:
        raise Unreadable("shape")
    return {"shape": shape, "value": _filling(view)}


def _filling(view: NodeView) -> float:
    for attribute in view.node.attribute:
        if attribute.name == "value":
            array, _ = from_proto(attribute.t, view.node.name)
            if array.size != 1 or array.dtype.kind in "OSUc":
                raise Unreadable("value")
            value = float(array.reshape(-1)[0])
            negative_zero = value == 0 and math.copysign(1, value) < 0
            if not math.isfinite(value) or value != array.reshape(-1)[0].item() or negative_zero:
                raise Unreadable("value")
            return value
    return 0.0


def integer_range(view: NodeView) -> dict[str, Attr]:
    """Read the number of elements from the limit. In a range of real numbers it would depend on rounding."""
    start, limit, delta = (view.integer_input(k) for k in range(3))
    if start is None or limit is None or delta is None:
        raise Unreadable("inputs")
    if delta == 0 or max(map(abs, (start, limit, delta))) > 2**53:
        raise Unreadable("delta")
    n = max(-((start - limit) // delta), 0)
    if n > _MAX_ELEMENTS:
        raise Unreadable("limit")
    return {"delta": float(delta), "n": n, "start": float(start)}
