"""Operators that pick elements by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Row, Unreadable, distinct, negative, rank

__all__ = ["READERS"]

_MOST_INDICES = 1024  # of a Gather; attributes are for small lists, and longer ones are data


def _gather(view: NodeView) -> dict[str, Attr] | None:
    dims, shape = rank(view), view.shape(0)
    (axis,) = negative([view.integer("axis", 0)], dims)
    term = view.inputs[1] if len(view.inputs) > 1 else None
    indices = view.list_input(1, (0, 1))
    if indices is None or len(indices) > _MOST_INDICES or term is None or term.type is None or shape is None:
        return None
    size = shape[axis]
    if isinstance(size, int):
        indices = tuple(place + size if place < 0 else place for place in indices)
    return {"axis": axis, "indices": indices[0] if term.type.rank == 0 else indices}


def _trilu(view: NodeView) -> dict[str, Attr] | None:
    operand = view.inputs[0]
    if operand is not None and operand.type is not None and operand.type.dtype == "string":
        return None
    return {"k": view.integer_input(1) or 0, "upper": int(view.integer("upper", 1) != 0)}


def _cumsum(view: NodeView) -> dict[str, Attr] | None:
    axis = view.integer_input(1)
    if axis is None:
        return None
    exclusive, reverse = (int(view.integer(name, 0) != 0) for name in ("exclusive", "reverse"))
    return {"axis": negative([axis], rank(view))[0], "exclusive": exclusive, "reverse": reverse}


def _resize(view: NodeView) -> dict[str, Attr] | None:
    """Where every element is repeated, that is: the nearest one, by whole scales, and no scale on the first two axes"""
    if view.text("mode", "nearest") != "nearest":
        return None
    if view.opset < 11:
        return _repeated(view, _scales(view, 1))
    scales = _scales(view, 2) or _ratios(view)
    transformation = view.text("coordinate_transformation_mode", "half_pixel")
    rounding = view.text("nearest_mode", "round_prefer_floor")
    if scales is None or not all(_repeats(transformation, rounding, scale, view.opset) for scale in scales):
        return None
    return _repeated(view, scales)


def _upsample(view: NodeView) -> dict[str, Attr] | None:
    if view.text("mode", "nearest") != "nearest":
        return None
    if view.opset >= 9:
        return _repeated(view, _scales(view, 1))
    stated = [a.floats for a in view.node.attribute if a.name == "scales"]
    return _repeated(view, _whole(stated[0])) if stated else None


def _repeated(view: NodeView, scales: Sequence[int] | None) -> dict[str, Attr] | None:
    dims = rank(view)
    if scales is None or dims < 3 or len(scales) != dims or tuple(scales[:2]) != (1, 1):
        return None
    return {"scales": tuple(scales[2:])}


def _repeats(transformation: str, rounding: str, scale: int, opset: int) -> bool:
    """Whether element q of the input is the one for s*q, ..., s*q + s - 1 of the output, s the scale."""
    if transformation == "asymmetric":  # q + r/s, for r from 0 to s - 1
        return rounding == "floor" or scale == 1 or (rounding == "round_prefer_floor" and scale == 2)
    if transformation == "tf_half_pixel_for_nn" and opset < 13:  # q + (r + 1/2)/s
        return rounding == "floor" or (rounding == "round_prefer_floor" and scale == 1)
    # q + (r + 1/2)/s - 1/2, less than 1/2 from q; the symmetric one is the same where the output's size is a whole one
    centred = transformation in ("half_pixel", "pytorch_half_pixel") or (
        transformation == "half_pixel_symmetric" and opset >= 19
    )
    return centred and (rounding in ("round_prefer_floor", "round_prefer_ceil") or scale == 1)


def _scales(view: NodeView, index: int) -> list[int] | None:
    """The scales of all axes; None where there are none, or an empty list of them."""
    term = view.inputs[index] if index < len(view.inputs) else None
    if term is None:
        return None
    array = view.value(term)
    if array is None or array.dtype.kind != "f" or array.ndim != 1:
        raise Unreadable("scales")
    return _of_all_axes(view, _whole(array.tolist()), 1) if array.size else None


def _ratios(view: NodeView) -> list[int] | None:
    """The scales of all axes, where the sizes of the output are given."""
    sizes, shape = view.list_input(3), view.shape(0)
    if sizes is None or shape is None or view.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    ratios: list[int] = []
    for size, before in zip(_of_all_axes(view, sizes, -1), shape, strict=True):
        if size == -1:  # of an axis that is not resized
            ratios.append(1)
        elif isinstance(before, int) and 0 < before <= size and size % before == 0:
            ratios.append(size // before)
        else:
            raise Unreadable("sizes")
    return ratios


def _of_all_axes(view: NodeView, values: Sequence[int], other: int) -> list[int]:
    dims = rank(view)
    axes = view.integers("axes") if view.opset >= 18 else None
    places = distinct(negative(range(dims) if axes is None else axes, dims))
    if len(values) != len(places):
        raise Unreadable("axes")
    full = [other] * dims
    for place, value in zip(places, values, strict=True):
        full[place] = value
    return full


def _whole(scales: Sequence[float]) -> list[int]:
    if any(not np.isfinite(scale) or scale < 1 or scale != int(scale) for scale in scales):
        raise Unreadable("scales")
    return [int(scale) for scale in scales]


READERS: Mapping[str, Row] = {
    "Gather": Row(1, 1, _gather, parameters=True),
    "Trilu": Row(1, 1, _trilu, parameters=True),
    "Resize": Row(1, 1, _resize, parameters=True),
    "Upsample": Row(1, 1, _upsample, parameters=True, op="Resize"),
    "CumSum": Row(1, 1, _cumsum, parameters=True),
}
