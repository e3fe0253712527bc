"""Attention of ONNX Runtime, and the rotation of its operands."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx

from superopt.ir.dim import Size, floor_div
from superopt.ir.operator import OPERATORS
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.nodes.derived_exporter import export_derived
from superopt.onnx_io.nodes.derived_importer import import_derived
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import Canonical, NodeView, Unreadable


@importer("com.microsoft::MultiHeadAttention")
def import_multi_head(view: NodeView) -> Canonical:
    return _imported(view, 4, _last_size(view, 0))


@importer("com.microsoft::Attention")
def import_packed(view: NodeView) -> Canonical:
    width = _last_size(view, 1)
    return _imported(view, 3, None if width is None else floor_div(width, 3))


def _last_size(view: NodeView, operand: int) -> Size | None:
    shape = view.shape(operand)
    return shape[-1] if shape else None


def _imported(view: NodeView, operands: int, width: Size | None) -> Canonical:
    """Read the first operands, and what is added to the scores, the sixth input; those between and after are refused.

    An absent scale is 1 / sqrt(width of a head) in float32, as ONNX Runtime computes it; `width` is that of all heads.
    """
    inputs, heads = view.inputs, view.integer("num_heads", 1)
    if len(inputs) > 6 or any(one is not None for one in inputs[operands:5]):
        raise Unreadable("inputs")
    form = import_derived(dataclasses.replace(view, inputs=inputs[:operands]), OPERATORS[view.node.op_type])
    scale = view.real("scale", 0.0)
    if not scale:
        if not isinstance(width, int) or width < heads or heads < 1:
            raise Unreadable("scale")
        scale = float(np.float32(1) / np.sqrt(np.float32(width // heads)))
    return Canonical(form.op, (*inputs[:operands], *inputs[5:]), {**form.attrs, "scale": scale})


@exporter("Attention", "MultiHeadAttention")
def export_attention(e: NodeExport) -> list[onnx.NodeProto]:
    """Leave out what has no definition: a mask of keys, and earlier keys and values, before what is added to scores."""
    if not np.float32(e.attrs["scale"]):
        raise ModelError(f"{e.term.op} takes a scale of 0 for its default")
    if len(e.inputs) == OPERATORS[e.term.op].inputs[1]:
        e.inputs[-1:] = ["", e.inputs[-1]] if e.term.op == "MultiHeadAttention" else ["", "", e.inputs[-1]]
    return export_derived(e)
