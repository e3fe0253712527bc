"""Constants in closed form."""

from __future__ import annotations

import math
from collections.abc import Mapping

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Row, Unreadable
from superopt.onnx_io.tensors import from_proto

__all__ = ["READERS"]


_MOST = 1024  # elements; what is read is written as a weight, and a big one would make the file bigger


def _constant_of_shape(view: NodeView) -> dict[str, Attr] | None:
    shape = view.list_input(0)
    if shape is None or min(shape, default=0) < 0 or math.prod(shape) > _MOST:
        return None
    return {"shape": shape, "value": _filling(view)}


def _filling(view: NodeView) -> float:
    for attribute in view.node.attribute:
        if attribute.name == "value":
            array, _ = from_proto(attribute.t, view.node.name)
            if array.size != 1 or array.dtype.kind in "OSUc":
                raise Unreadable("value")
            value = float(array.reshape(-1)[0])
            negative_zero = value == 0 and math.copysign(1, value) < 0
            if not math.isfinite(value) or value != array.reshape(-1)[0] or negative_zero:
                raise Unreadable("value")
            return value
    return 0.0


def _range(view: NodeView) -> dict[str, Attr] | None:
    """Of integers only: the number of elements of a real range depends on how it is rounded."""
    start, limit, delta = (view.integer_input(k) for k in range(3))
    if start is None or limit is None or delta is None:
        return None
    if delta == 0 or max(map(abs, (start, limit, delta))) > 2**53:
        return None
    n = max(-((start - limit) // delta), 0)
    return {"delta": float(delta), "n": n, "start": float(start)} if n <= _MOST else None


READERS: Mapping[str, Row] = {
    "ConstantOfShape": Row(0, 0, _constant_of_shape, parameters=True),
    "Range": Row(0, 0, _range, parameters=True),
}
