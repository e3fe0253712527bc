"""Elementwise operators and Gemm, where versions of the operator set differ."""

from __future__ import annotations

import onnx
from onnx import helper

from superopt.ir.operator import OPERATORS
from superopt.onnx_io.nodes.derived_exporter import export_derived
from superopt.onnx_io.nodes.derived_importer import import_derived
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import Canonical, NodeView, Unreadable


@importer("Celu")
def import_celu(view: NodeView) -> Canonical:
    """Refuse an `alpha` that is not above 0: the formula and the function body of the specification differ there."""
    form = import_derived(view, OPERATORS[view.node.op_type])
    if not float(str(form.attrs["alpha"])) > 0:
        raise Unreadable("alpha")
    return form


@importer("com.microsoft::Gelu", entry="Gelu")
def import_gelu(view: NodeView) -> Canonical:
    """Read ONNX Runtime's own Gelu as that of ONNX."""
    return import_derived(view, OPERATORS["Gelu"])


@exporter("Gemm")
def export_gemm(e: NodeExport) -> list[onnx.NodeProto]:
    """Write a zero for the summand before opset 11, where it is not optional."""
    if len(e.inputs) == 2 and e.opset < 11:
        e.append([0], e.dtype)
    return export_derived(e)


@exporter("Sum")
def export_sum(e: NodeExport) -> list[onnx.NodeProto]:
    """Write additions before opset 8, where Sum does not broadcast."""
    if e.opset >= 8 or len({i.type for i in e.term.inputs if i is not None}) == 1:
        return export_derived(e)
    nodes: list[onnx.NodeProto] = []
    total = e.inputs[0]
    for k, name in enumerate(e.inputs[1:], 1):
        result = e.outputs[0] if k == len(e.inputs) - 1 else f"{e.outputs[0]}_partial_{k}"
        nodes.append(helper.make_node("Add", [total, name], [result]))
        total = result
    return nodes


@importer("Trilu")
def import_trilu(view: NodeView) -> Canonical:
    """Refuse strings: ONNX allows them, but there is no zero string."""
    if view.dtype(0) == "string":
        raise Unreadable("element type")
    return import_derived(view, OPERATORS[view.node.op_type])
