"""Recurrent layers: forward, one direction, of one activation for each gate, with given states."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.infer import OPERATORS
from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Row, Unreadable
from superopt.ops.recurrent import RECURRENT

__all__ = ["READERS"]

_KNOWN = {"direction", "hidden_size", "input_forget", "layout"}


def _recurrent(view: NodeView) -> dict[str, Attr] | None:
    """What the table lacks has its default; without initial states the node is no recurrent layer to it."""
    own = OPERATORS[view.node.op_type].attrs
    if not {attribute.name for attribute in view.node.attribute} <= _KNOWN.union(own):
        return None
    if view.text("direction", "forward") != "forward" or view.integer("input_forget", 0) or view.integer("layout", 0):
        return None
    shape = view.shape(2)
    if shape is None or len(shape) != 3 or view.integer("hidden_size", -1) not in (-1, shape[2]):
        raise Unreadable("hidden size")
    return {name: view.integer(name, 0) for name in own}


def _row(states: int) -> Row:
    """All inputs but the lengths of sequences, which are before the states."""
    return Row(3, 5 + states, _recurrent, outputs=True, gaps=True, places=(0, 1, 2, 3, *range(5, 5 + states)))


READERS: Mapping[str, Row] = {op: _row(len(kind.states)) for op, kind in RECURRENT.items()}
