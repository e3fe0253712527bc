"""Importers of layout operators, whose attributes are computed from the operand's shape."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import Canonical, NodeView, Unreadable, distinct, negative
from superopt.onnx_io.schemas import TO_THE_END

__all__ = ["flatten", "gather", "gather_nd", "pad", "reshape", "slice_of", "split", "squeeze", "unsqueeze"]

_MAX_INDICES = 1024  # of a Gather; attributes are for small lists, and longer ones are data


def split(view: NodeView) -> dict[str, Attr]:
    """Read the sizes of the parts; without sizes the parts are equal, one for each output."""
    shape = view.shape(0)
    if shape is None:
        raise Unreadable("shape")
    (axis,) = negative([view.integer("axis", 0)], len(shape))
    size, parts = shape[axis], view.outputs
    if not isinstance(size, int):
        raise Unreadable("size")
    sizes = view.parameter("split")
    if sizes is None:
        if view.opset >= 18:
            if view.integer("num_outputs", 0) != parts:
                raise Unreadable("num_outputs")
            each = -(-size // parts)
            sizes = tuple(min(each, max(size - k * each, 0)) for k in range(parts))
        elif size % parts == 0:
            sizes = (size // parts,) * parts
        else:
            raise Unreadable("split")
    if sum(sizes) != size or min(sizes) < 0 or len(sizes) != parts:
        raise Unreadable("split")
    return {"axis": axis, "split": sizes}


def slice_of(view: NodeView) -> dict[str, Attr]:
    """Read starts and ends as positions inside the operand, counted from the front."""
    shape = view.shape(0)
    starts, ends, axes = view.parameter("starts"), view.parameter("ends"), view.parameter("axes")
    if shape is None or starts is None or ends is None:
        raise Unreadable("starts")
    axes = distinct(negative(range(len(starts)) if axes is None else axes, len(shape)))
    steps = None if view.opset < 10 else view.list_input(4)
    steps = (1,) * len(axes) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise Unreadable("steps")
    ranges: list[tuple[int, int, int, int]] = []
    for axis, start, end, step in sorted(zip(axes, starts, ends, steps, strict=True)):
        size = shape[axis]
        if not isinstance(size, int):
            if (start, step) != (0, 1) or end < TO_THE_END:
                raise Unreadable("size")
            continue  # the whole axis
        # With a negative step and the largest integer as end, ONNX selects nothing, ONNX Runtime everything.
        if step < 0 and (size < 1 or end in (2**31 - 1, 2**63 - 1)):
            raise Unreadable("ends")
        start, end = (at + size if at < 0 else at for at in (start, end))
        if step > 0:
            start = min(max(start, 0), size)
            ranges.append((axis, start, max(start, min(end, size)), step))
        else:
            start = min(max(start, 0), size - 1)
            ranges.append((axis, start, min(start, max(end, -1)), step))
    return {name: tuple(r[k] for r in ranges) for k, name in enumerate(("axes", "starts", "ends", "steps"))}


def pad(view: NodeView) -> Canonical:
    """Read pads of some axes as pads of all. Modes other than constants are another operator, without negative pads."""
    mode, operands = view.text("mode", "constant"), view.inputs[:1]
    if view.dtype(0) == "string":
        raise Unreadable("element type")
    pads = _pads(view)
    if mode == "constant":
        value = view.real("value", 0.0) if view.opset < 11 else _pad_value(view)
        if math.isnan(value) or (value == 0 and math.copysign(1, value) < 0):
            raise Unreadable("value")  # NaN is not equal to itself, and -0.0 is equal to 0.0
        return Canonical("Pad", operands, {"pads": pads, "value": value})
    # ONNX Runtime fails if "reflect" would reach beyond the tensor, and repeats it for "wrap".
    known = [isinstance(size, int) for size in view.shape(0) or ()]
    if min(pads, default=0) < 0 or (mode == "wrap" and not all(known)):
        raise Unreadable("pads")
    return Canonical("PadCopy", operands, {"mode": mode, "pads": pads})


def _pads(view: NodeView) -> tuple[int, ...]:
    """Return the pads of all axes."""
    dims, pads = view.rank, view.parameter("pads")
    if pads is None:
        raise Unreadable("pads")
    axes = view.list_input(3) if view.opset >= 18 else None
    axes = distinct(negative(range(dims) if axes is None else axes, dims))
    if len(pads) != 2 * len(axes):
        raise Unreadable("pads")
    full = [0] * (2 * dims)
    for k, axis in enumerate(axes):
        full[axis + dims], full[axis + 2 * dims] = pads[k], pads[len(axes) + k]
    return tuple(full)


def _pad_value(view: NodeView) -> float:
    array = view.array_input(2)
    if array is None:
        return 0.0
    if array.size != 1 or array.dtype.kind in "OSUb":
        raise Unreadable("value")
    value = float(array.reshape(-1)[0])
    if not math.isnan(value) and value != array.reshape(-1)[0].item():
        raise Unreadable("value")  # an integer that no float64 is equal to
    return value


def unsqueeze(view: NodeView) -> dict[str, Attr]:
    """Read the axes, which are those of the result."""
    axes = view.parameter("axes")
    if axes is None:
        raise Unreadable("axes")
    return {"axes": tuple(sorted(distinct(negative(axes, view.rank + len(axes)))))}


def squeeze(view: NodeView) -> dict[str, Attr]:
    """Read the axes; without axes, all axes of size 1 are removed."""
    axes, shape = view.parameter("axes"), view.shape(0)
    if shape is None:
        raise Unreadable("shape")
    if axes is None:
        if not all(isinstance(size, int) for size in shape):
            raise Unreadable("axes")
        axes = tuple(k for k, size in enumerate(shape) if size == 1)
    return {"axes": tuple(sorted(distinct(negative(axes, len(shape)))))}


def flatten(view: NodeView) -> dict[str, Attr]:
    """Read `axis`, counted from the front: it is the number of axes that are merged into the first."""
    axis = view.integer("axis", 1)
    return {"axis": axis + view.rank if axis < 0 else axis}


def reshape(view: NodeView) -> dict[str, Attr]:
    """Read the shape; `allowzero` becomes 0 if the shape has no 0, because then it has no effect."""
    shape = view.list_input(1)
    if shape is None:
        raise Unreadable("shape")
    zero = view.opset >= 14 and 0 in shape and view.integer("allowzero", 0) != 0
    return {"allowzero": int(zero), "shape": shape}


def gather(view: NodeView) -> Mapping[str, Attr] | Canonical:
    """Read constant indices, if they are few, as a number or a list, counted from the front if the size is known.

    A table of indices has no such form, but a Reshape does the same if it selects every place once, in order.
    """
    (axis,), shape = negative([view.integer("axis", 0)], view.rank), view.shape(0)
    term = view.inputs[1] if len(view.inputs) > 1 else None
    if term is None or term.type is None or shape is None:
        raise Unreadable("indices")
    if term.type.rank is not None and term.type.rank > 1:
        return _in_order(view, axis % len(shape), np.expand_dims(_places(view), -1))
    indices = view.list_input(1, (0, 1))
    if indices is None or len(indices) > _MAX_INDICES:
        raise Unreadable("indices")
    size = shape[axis]
    if isinstance(size, int):
        indices = tuple(place + size if place < 0 else place for place in indices)
    return {"axis": axis, "indices": indices[0] if term.type.rank == 0 else indices}


def gather_nd(view: NodeView) -> Canonical:
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
