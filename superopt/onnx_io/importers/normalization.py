"""Normalisation."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Row, negative, rank

__all__ = ["READERS"]


def _softmax(view: NodeView) -> dict[str, Attr] | None:
    """Before opset 13 all axes from `axis` on are one: where one of them at most is longer than 1, that is the axis."""
    dims = rank(view)
    if view.opset >= 13:
        return {"axis": negative([view.integer("axis", -1)], dims)[0]}
    (axis,), shape = negative([view.integer("axis", 1)], dims), view.shape(0) or ()
    longer = [d for d in range(axis, 0) if shape[d] != 1]
    if len(longer) > 1:
        return None
    return {"axis": longer[0] if longer else -1}


def _instance_normalization(view: NodeView) -> dict[str, Attr] | None:
    return {"epsilon": view.real("epsilon", 1e-5)}


def _group_normalization(view: NodeView) -> dict[str, Attr] | None:
    """Opset 18 has a scale for each group, later ones for each channel."""
    if view.opset < 21 or view.integer("stash_type", 1) != 1:
        return None
    return {"epsilon": view.real("epsilon", 1e-5), "num_groups": view.integer("num_groups", 0)}


def _layer_normalization(view: NodeView) -> dict[str, Attr] | None:
    if view.integer("stash_type", 1) != 1:
        return None
    return {"axis": negative([view.integer("axis", -1)], rank(view))[0], "epsilon": view.real("epsilon", 1e-5)}


def _lp_normalization(view: NodeView) -> dict[str, Attr] | None:
    return {"axis": negative([view.integer("axis", -1)], rank(view))[0], "p": view.integer("p", 2)}


READERS: Mapping[str, Row] = {
    **dict.fromkeys(("Softmax", "LogSoftmax"), Row(1, 1, _softmax)),
    "InstanceNormalization": Row(3, 3, _instance_normalization),
    "GroupNormalization": Row(3, 3, _group_normalization),
    "LayerNormalization": Row(2, 3, _layer_normalization),
    "RMSNormalization": Row(2, 2, _layer_normalization),
    "LpNormalization": Row(1, 1, _lp_normalization),
}
