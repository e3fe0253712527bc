"""Operators that give the same elements another shape or place."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Row, rank

__all__ = ["READERS"]


def _reshape(view: NodeView) -> dict[str, Attr] | None:
    shape = view.list_input(1)
    if shape is None:
        return None
    # Without a 0 in the shape `allowzero` says nothing; then there is one form only.
    zero = view.opset >= 14 and 0 in shape and view.integer("allowzero", 0) != 0
    return {"allowzero": int(zero), "shape": shape}


def _flatten(view: NodeView) -> dict[str, Attr] | None:
    axis = view.integer("axis", 1)
    return {"axis": axis + rank(view) if axis < 0 else axis}


def _expand(view: NodeView) -> dict[str, Attr] | None:
    shape = view.list_input(1)
    return None if shape is None else {"shape": shape}


def _tile(view: NodeView) -> dict[str, Attr] | None:
    repeats = view.list_input(1)
    return None if repeats is None else {"repeats": repeats}


def _depth_to_space(view: NodeView) -> dict[str, Attr] | None:
    # Before opset 11 there is no mode, and the depth goes as in DCR.
    mode = view.text("mode", "DCR") if view.opset >= 11 else "DCR"
    return {"blocksize": view.integer("blocksize", 0), "mode": mode}


def _space_to_depth(view: NodeView) -> dict[str, Attr] | None:
    if view.opset >= 28 and view.text("mode", "DCR") != "DCR":
        return None
    return {"blocksize": view.integer("blocksize", 0)}


READERS: Mapping[str, Row] = {
    "Reshape": Row(1, 1, _reshape, parameters=True),
    "Flatten": Row(1, 1, _flatten),
    "Expand": Row(1, 1, _expand, parameters=True),
    "Tile": Row(1, 1, _tile, parameters=True),
    "DepthToSpace": Row(1, 1, _depth_to_space),
    "SpaceToDepth": Row(1, 1, _space_to_depth),
}
