"""The canonical form of the operators in the table: a node of any opset to attributes and inputs.

A reader gives None where the node has no canonical form (a size is not known, a mode is not modelled);
the node then stays opaque. Sources: the operators' pages of the ONNX specification and their change logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx

from superopt.onnx_io.importers import (
    constants,
    contrib,
    conv,
    linear,
    logic,
    normalization,
    pool,
    rearrange,
    recurrent,
    reduce,
    scalar,
    select,
    standard,
)
from superopt.onnx_io.importers.view import Canonical, NodeView, Row, Unreadable

__all__ = ["READERS", "Canonical", "NodeView", "canonical"]

_FAMILIES = (
    constants, contrib, conv, linear, logic, normalization, pool, rearrange, recurrent, reduce, scalar, select, standard
)  # fmt: skip
# Operator types of other domains are named domain::type.
READERS: Mapping[str, Row] = {name: row for family in _FAMILIES for name, row in family.READERS.items()}
_DEFAULT = ("", "ai.onnx")


def canonical(view: NodeView) -> Canonical | None:
    """The canonical form of a node, or None."""
    name = view.node.op_type if view.node.domain in _DEFAULT else f"{view.node.domain}::{view.node.op_type}"
    row = READERS.get(name)
    if row is None or len(view.inputs) < row.least or None in view.inputs[: row.least if row.gaps else row.most]:
        return None
    if view.node.domain in _DEFAULT and not _in_opset(view.node.op_type, view.opset):
        return None
    try:
        attrs = row.read(view)
    except Unreadable:
        return None
    if attrs is None or (len(view.inputs) > row.most and not row.parameters):
        return None
    if view.outputs != 1 and not row.outputs:
        return None
    inputs = view.inputs[: row.most]
    if row.places:
        if any(used is not None for place, used in enumerate(inputs) if place not in row.places):
            return None
        inputs = tuple(inputs[place] if place < len(inputs) else None for place in row.places)
    op = row.op or view.node.op_type
    if attrs.get("axes") == "none":  # a reduction over no axis
        op, attrs = "Identity", {}
    return Canonical(op, inputs, attrs)


@cache
def _in_opset(op: str, opset: int) -> bool:
    """Whether the opset has this operator of the standard domain: a newer one, or one that is gone, could not be
    written back. What ONNX does not know at all is ONNX Runtime's addition to that domain, and has no versions."""
    if not onnx.defs.has(op):
        return True
    return onnx.defs.has(op, opset) and not onnx.defs.get_schema(op, opset).deprecated
