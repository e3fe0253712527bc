"""Reductions over named axes."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Row, distinct, negative, rank

__all__ = ["READERS"]


def _reduce(view: NodeView) -> dict[str, Attr] | None:
    since = 13 if view.node.op_type == "ReduceSum" else 18  # when the axes became an input
    axes = view.parameters("axes", 1, since)
    if not axes and view.opset >= since and view.integer("noop_with_empty_axes", 0):
        return {"axes": "none"}
    dims = rank(view)
    axes = tuple(sorted(distinct(negative(axes or range(dims), dims))))
    return {"axes": axes, "keepdims": int(view.integer("keepdims", 1) != 0)}


def _composed(view: NodeView) -> dict[str, Attr] | None:
    """For reductions that do more than reduce, and so are not the identity where they reduce nothing."""
    attrs = _reduce(view)
    return None if attrs is None or attrs["axes"] in ("none", ()) else attrs


READERS: Mapping[str, Row] = {
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"), Row(1, 1, _reduce, parameters=True)
    ),
    **dict.fromkeys(
        ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
        Row(1, 1, _composed, parameters=True),
    ),
}
