"""Cast: the element type is a number in a file."""

from __future__ import annotations

import onnx

from superopt.evaluate import dtype_name
from superopt.ir.term import Attr
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import NodeView, Unreadable
from superopt.ops.logic import CASTABLE


@importer("Cast")
def import_cast(view: NodeView) -> dict[str, Attr]:
    """Read the element type, a number in a file. Other attributes concern 8-bit floats, which stay opaque."""
    try:
        to = dtype_name(view.integer("to", 0))
    except ValueError:
        raise Unreadable("to") from None
    if view.dtype(0) not in CASTABLE or to not in CASTABLE:
        raise Unreadable("to")
    return {"to": to}


@exporter("Cast")
def export_cast(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the element type as a number."""
    return [e.node(to=onnx.TensorProto.DataType.Value(e.attrs["to"].upper()))]
