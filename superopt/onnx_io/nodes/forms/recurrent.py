"""Recurrent layers: directions, lengths of sequences and initial states."""

from __future__ import annotations

import onnx

from superopt.ir.dim import Size
from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import Canonical, NodeView, Unreadable
from superopt.ops.recurrent import RECURRENT


@importer(*RECURRENT)
def import_layer(view: NodeView) -> Canonical:
    """Read a layer of one direction, forward, with default activations.

    The input `sequence_lens` before the states must be absent. Absent initial states are zeros.
    """
    operator, states = OPERATORS[view.node.op_type], len(RECURRENT[view.node.op_type].states)
    known = {"direction", "hidden_size", "input_forget", "layout", *operator.attrs}
    if not {attribute.name for attribute in view.node.attribute} <= known:
        raise Unreadable("attributes")
    if view.text("direction", "forward") != "forward" or view.integer("input_forget", 0) or view.integer("layout", 0):
        raise Unreadable("direction")
    shape = view.shape(2)
    if shape is None or len(shape) != 3 or view.integer("hidden_size", -1) not in (-1, shape[2]):
        raise Unreadable("hidden size")
    padded = view.inputs + (None,) * (5 + states - len(view.inputs))
    if len(padded) > 5 + states or padded[4] is not None or None in padded[:3]:  # the last input would be peepholes
        raise Unreadable("inputs")
    begun = tuple(state or _zero_state(view, shape[2]) for state in padded[5:])
    return Canonical(operator.name, (*padded[:4], *begun), {name: view.integer(name, 0) for name in operator.attrs})


def _zero_state(view: NodeView, hidden: Size) -> Term:
    """Return the initial state that an absent input stands for."""
    shape, dtype = view.shape(0), view.dtype(0)
    if shape is None or len(shape) != 3 or not isinstance(shape[1], int) or dtype is None:
        raise Unreadable("batch size")
    return make("Zeros", (), {"shape": (1, shape[1], hidden)}, dtype)


@exporter(*RECURRENT)
def export_layer(e: NodeExport) -> list[onnx.NodeProto]:
    """Leave out `sequence_lens`, the input before the states: all sequences are as long as X.

    `hidden_size` is that of the recurrent weights, whose shape is known even if the shape of X is not.
    """
    e.inputs.insert(4, "")
    weights = e.term.inputs[2]
    shape = weights.type.shape if weights is not None and weights.type is not None else None
    if shape is None or not isinstance(shape[2], int):
        return [e.node(**e.attrs)]
    return [e.node(hidden_size=shape[2], **e.attrs)]
