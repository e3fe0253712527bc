"""Quantization: the axis has no effect if the scale is one number."""

from __future__ import annotations

import onnx

from superopt.ir.operator import OPERATORS
from superopt.ir.term import Attr
from superopt.onnx_io.nodes.derived_exporter import export_derived
from superopt.onnx_io.nodes.derived_importer import check_rest
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import NodeView, Unreadable, negative


@importer("DequantizeLinear", "QuantizeLinear")
def import_quantization(view: NodeView) -> dict[str, Attr]:
    """Read the axis, which is without effect if the scale is one number. Blocks of an axis have no definition here.

    Before operator set 13 there is no axis, and scales are numbers.
    """
    scale, axis = view.shape(1), view.integer("axis", 1)
    if scale is None:
        raise Unreadable("scale")
    if view.opset < 13 and scale not in ((), (1,)):
        raise Unreadable("scale")
    check_rest(view, OPERATORS[view.node.op_type])
    return {"axis": -1 if scale in ((), (1,)) else negative([axis], view.rank)[0]}


@exporter("DequantizeLinear", "QuantizeLinear")
def export_quantization(e: NodeExport) -> list[onnx.NodeProto]:
    """Leave out the axis if the scale is one number."""
    scale = e.term.inputs[1]
    if scale is None or scale.type is None or scale.type.shape in ((), (1,)):
        del e.attrs["axis"]
    return export_derived(e)
