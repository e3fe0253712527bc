"""Truth values, comparisons, and conversions between element types."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.evaluate import dtype_name
from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Row, plain
from superopt.ops.logic import CASTABLE

__all__ = ["READERS"]


def _cast(view: NodeView) -> dict[str, Attr] | None:
    """`saturate` and `round_mode` concern 8-bit floats, which are not modelled."""
    x = view.inputs[0]
    try:
        to = dtype_name(view.integer("to", 0))
    except ValueError:
        return None
    if x is None or x.type is None or x.type.dtype not in CASTABLE or to not in CASTABLE:
        return None
    return {"to": to}


READERS: Mapping[str, Row] = {
    "Where": Row(3, 3, plain),
    "Not": Row(1, 1, plain),
    **dict.fromkeys(
        ("And", "Or", "Xor", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), Row(2, 2, plain)
    ),
    "Cast": Row(1, 1, _cast),
}
