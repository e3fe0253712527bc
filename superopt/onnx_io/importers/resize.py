"""Importers of Resize and Upsample that repeat elements: nearest mode, integer scales, from the third axis on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Unreadable, distinct, negative

__all__ = ["resize", "upsample"]


def resize(view: NodeView) -> dict[str, Attr]:
    """Read scales, or sizes of the result, as scales of the last axes; most modes have no definition here."""
    if view.text("mode", "nearest") != "nearest":
        raise Unreadable("mode")
    if view.opset < 11:
        return _repeated(view, _scales(view, 1))
    scales = _scales(view, 2) or _ratios(view)
    transformation = view.text("coordinate_transformation_mode", "half_pixel")
    rounding = view.text("nearest_mode", "round_prefer_floor")
    if scales is None or not all(_repeats(transformation, rounding, scale, view.opset) for scale in scales):
        raise Unreadable("scales")
    return _repeated(view, scales)


def upsample(view: NodeView) -> dict[str, Attr]:
    """Read Resize under its name before opset 10."""
    if view.text("mode", "nearest") != "nearest":
        raise Unreadable("mode")
    if view.opset >= 9:
        return _repeated(view, _scales(view, 1))
    stated = view.reals("scales")
    return _repeated(view, None if stated is None else _whole(stated))


def _repeated(view: NodeView, scales: Sequence[int] | None) -> dict[str, Attr]:
    dims = view.rank
    if scales is None or dims < 3 or len(scales) != dims or tuple(scales[:2]) != (1, 1):
        raise Unreadable("scales")
    return {"scales": tuple(scales[2:])}


def _repeats(transformation: str, rounding: str, scale: int, opset: int) -> bool:
    """Return True if output elements s*q, ..., s*q + s - 1 are input element q, where s is the scale."""
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
    """Return the scales of all axes, or None if the input is absent or an empty list."""
    array = view.array_input(index)
    if array is None:
        return None
    if array.dtype.kind != "f" or array.ndim != 1:
        raise Unreadable("scales")
    return _of_all_axes(view, _whole(array.tolist()), 1) if array.size else None


def _ratios(view: NodeView) -> list[int] | None:
    """Return the scales of all axes from the sizes of the output, or None if the sizes are absent."""
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
    """Return one value for each axis: those of `values` for the axes that the node names, `other` for the rest."""
    dims = view.rank
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
