"""Parts of a tensor: Slice and Split."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from superopt.ir.dim import Dim, Size
from superopt.ir.term import Attr
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport, operand_shape
from superopt.onnx_io.nodes.view import NodeView, Unreadable, distinct, negative
from superopt.onnx_io.schemas import TO_THE_END


@importer("Slice")
def import_slice(view: NodeView) -> dict[str, Attr]:
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


@exporter("Slice")
def export_slice(e: NodeExport) -> list[onnx.NodeProto]:
    """Write positions in an axis of a free size from its end, if they are numbers then, and the end itself as such."""
    shape = operand_shape(e.term)
    ranges = list(zip(*(e.attrs[name] for name in ("axes", "starts", "ends", "steps")), strict=True))
    sizes = [None if shape is None else shape[axis] for axis, *_ in ranges]
    lists = {
        "starts": [_from_end(start, size) for (_, start, _, _), size in zip(ranges, sizes, strict=True)],
        "ends": [_end(end, step, size) for (_, _, end, step), size in zip(ranges, sizes, strict=True)],
        "axes": e.front_axes(e.attrs["axes"]),
    }
    if any(step != 1 for step in e.attrs["steps"]):
        if e.opset < 10:
            raise ModelError(f"opset {e.opset} has no Slice with steps (new in 10)")
        lists["steps"] = e.attrs["steps"]
    if e.opset < 10:
        attributes: dict[str, Any] = lists
        return [e.node(**attributes)]
    for value in lists.values():
        e.append(value)
    return [e.node()]


def _from_end(place: Size, size: Size | None) -> Size:
    """Return the place in an axis as a negative number if it is a fixed distance before the end, else unchanged."""
    back = None if size is None or isinstance(place, int) else size - place
    return -back if isinstance(back, int) and back > 0 else place


def _end(end: Size, step: Size, size: Size | None) -> Size:
    """Return the end of a slice. In a file, -1 means the last element, not the place before the first one."""
    limits = np.iinfo(np.int64)
    if isinstance(end, Dim) and end == size:
        return int(limits.max)
    if isinstance(step, int) and step < 0 and size is not None and isinstance(end, Dim):
        return end - size  # also right if `end` is -1 at run time
    end = _from_end(end, size)
    return int(limits.min) if end == -1 and isinstance(step, int) and step < 0 else end


@importer("Split")
def import_split(view: NodeView) -> dict[str, Attr]:
    """Read the sizes of the parts; without sizes the parts are equal, one for each output."""
    shape = view.shape(0)
    if shape is None:
        raise Unreadable("shape")
    (axis,) = negative([view.integer("axis", 0)], len(shape))
    size, parts = shape[axis], len(view.node.output)
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
