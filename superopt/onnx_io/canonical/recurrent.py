"""Recurrent layers: forward, one direction, of one activation for each gate, with given states."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.term import Attr
from superopt.onnx_io.canonical.view import NodeView, Row, Unreadable

__all__ = ["READERS"]

_KNOWN = {"direction", "hidden_size", "input_forget", "layout"}


def _lstm(view: NodeView) -> dict[str, Attr] | None:
    """What the table lacks has its default; without initial states the node is no LSTM to it."""
    if not {attribute.name for attribute in view.node.attribute} <= _KNOWN:
        return None
    if view.text("direction", "forward") != "forward" or view.integer("input_forget", 0) or view.integer("layout", 0):
        return None
    shape = view.shape(2)
    if shape is None or len(shape) != 3 or view.integer("hidden_size", -1) not in (-1, shape[2]):
        raise Unreadable("hidden size")
    return {}


READERS: Mapping[str, Row] = {"LSTM": Row(3, 7, _lstm, outputs=True, gaps=True, places=(0, 1, 2, 3, 5, 6))}
