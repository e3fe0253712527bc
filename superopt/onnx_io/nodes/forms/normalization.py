"""Normalizations: Softmax over several axes in old opsets, BatchNormalization of several element types."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from superopt.ir.operator import OPERATORS
from superopt.ir.term import Attr
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.nodes.derived_exporter import export_derived
from superopt.onnx_io.nodes.derived_importer import import_derived
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import Canonical, NodeView, Unreadable, negative


@importer("LogSoftmax", "Softmax")
def import_softmax(view: NodeView) -> Mapping[str, Attr] | Canonical:
    """Read the axis. Before opset 13 all axes from it on are normalized together: only one may differ from size 1."""
    if view.opset >= 13:
        return import_derived(view, OPERATORS[view.node.op_type])
    (axis,), shape = negative([view.integer("axis", 1)], view.rank), view.shape(0) or ()
    longer = [d for d in range(axis, 0) if shape[d] != 1]
    if len(longer) > 1:
        raise Unreadable("axis")
    return {"axis": longer[0] if longer else -1}


@exporter("LogSoftmax", "Softmax")
def export_softmax(e: NodeExport) -> list[onnx.NodeProto]:
    """Check the axis: before opset 13 all axes from it on are normalized together, so later ones must have size 1."""
    shape, axis = e.term.type.shape if e.term.type is not None else None, e.attrs["axis"]
    if e.opset < 13 and axis != -1 and (shape is None or any(n != 1 for n in shape[len(shape) + axis + 1 :])):
        raise ModelError(f"opset {e.opset} has no {e.term.op} over an axis in the middle (new in 13)")
    return export_derived(e)


@importer("BatchNormalization")
def import_batch_normalization(view: NodeView) -> Canonical:
    """Refuse parameters with another element type than the operand: ONNX allows them, but terms have one type."""
    if len({view.dtype(index) for index in range(len(view.inputs))}) > 1:
        raise Unreadable("element types")
    return import_derived(view, OPERATORS[view.node.op_type])
