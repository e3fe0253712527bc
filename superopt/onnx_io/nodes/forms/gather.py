"""Selections by constant indices, and by indices that are data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx

from superopt.ir.dim import Sizes
from superopt.ir.term import Attr
from superopt.ir.types import TensorType
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import Canonical, NodeView, Unreadable, negative

_MAX_INDICES = 1024  # of a Gather; attributes are for small lists, and longer ones are data


@importer("Gather")
def import_gather(view: NodeView) -> Mapping[str, Attr] | Canonical:
    """Read constant indices, if they are few, as a number or a list, counted from the front if the size is known.

    A table of indices has no such form, but a Reshape does the same if it selects every place once, in order. All other
    indices are an operand.
    """
    (axis,), shape = negative([view.integer("axis", 0)], view.rank), view.shape(0)
    term = view.inputs[1] if len(view.inputs) > 1 else None
    if term is None or term.type is None or shape is None or len(view.inputs) > 2:
        raise Unreadable("indices")
    try:
        return _constant_indices(view, axis, shape, term.type)
    except Unreadable:
        if term.type.shape is None:
            raise
        return Canonical("Lookup", view.inputs, {"axis": axis})


def _constant_indices(view: NodeView, axis: int, shape: Sizes, type: TensorType) -> Mapping[str, Attr] | Canonical:
    if type.rank is not None and type.rank > 1:
        return _in_order(view, axis % len(shape), np.expand_dims(_places(view), -1))
    indices = view.list_input(1, (0, 1))
    if indices is None or len(indices) > _MAX_INDICES:
        raise Unreadable("indices")
    size = shape[axis]
    if isinstance(size, int):
        indices = tuple(place + size if place < 0 else place for place in indices)
    return {"axis": axis, "indices": indices[0] if type.rank == 0 else indices}


@exporter("Lookup")
def export_lookup(e: NodeExport) -> list[onnx.NodeProto]:
    """Write a Gather, whose second input is the indices. Its axis counts from the front, as the first input's does."""
    return [e.node("Gather", axis=e.front_axes([e.attrs["axis"]])[0])]


@importer("GatherND", entry="Gather")
def import_gather_nd(view: NodeView) -> Canonical:
    """Read constant indices that select every place of the first axes once, in order, as a Reshape."""
    if view.integer("batch_dims", 0):
        raise Unreadable("batch_dims")
    return _in_order(view, 0, _places(view))


def _places(view: NodeView) -> Any:
    indices = view.array_input(1)
    if indices is None or indices.dtype.kind not in "iu" or not indices.ndim:
        raise Unreadable("indices")
    return indices.astype(np.int64)


def _in_order(view: NodeView, first: int, places: Any) -> Canonical:
    """Return the Reshape for `places`, whose last axis has one index for each axis of the operand from `first` on."""
    *outer, count = places.shape
    shape = view.shape(0) or ()
    sizes = [size for size in shape if isinstance(size, int) and size > 0]
    last = first + count
    if len(sizes) < len(shape) or not 0 < count <= len(shape) - first:
        raise Unreadable("shape")
    chosen, found = sizes[first:last], places.reshape(-1, count)
    if len(found) != math.prod(chosen):
        raise Unreadable("indices")
    every = np.stack(np.unravel_index(np.arange(len(found)), chosen), -1)
    if not ((found == every) | (found == every - chosen)).all():
        raise Unreadable("indices")
    return Canonical("Reshape", view.inputs[:1], {"allowzero": 0, "shape": (*sizes[:first], *outer, *sizes[last:])})


@importer("OneHot")
def import_one_hot(view: NodeView) -> Canonical:
    """Read the depth, a constant input between the operands. The axis is one of the result."""
    depth = view.integer_input(1)
    if depth is None or depth < 1 or len(view.inputs) != 3:
        raise Unreadable("depth")
    (axis,) = negative([view.integer("axis", -1)], view.rank + 1)
    return Canonical("OneHot", (view.inputs[0], view.inputs[2]), {"axis": axis, "depth": depth})


@exporter("OneHot")
def export_one_hot(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the depth as a constant input between the operands."""
    values = e.inputs.pop()
    e.append(e.attrs["depth"])
    e.inputs.append(values)
    return [e.node(axis=e.attrs["axis"])]
