"""Resize and Upsample, in the modes and at the scales that `superopt.ops.resize` defines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

import onnx

from superopt.ir.dim import Size, floor_div
from superopt.ir.term import Attr
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import Canonical, NodeView, Unreadable, distinct, negative
from superopt.ops.resize import NEAREST_MODES, REPEATING, TRANSFORMATIONS

T = TypeVar("T")

_LARGEST = 64  # numerators and denominators of scales that are no whole numbers
_EXACT = 1 << 23  # below this product of an axis' size and the numerator, float32 finds the nearest element


@importer("Resize")
def import_resize(view: NodeView) -> Canonical:
    """Read scales, or sizes of the result, as scales of the last axes."""
    if view.opset < 11:
        return _older(view, _scales(view, 1))
    if view.integer("antialias", 0) or view.integer("exclude_outside", 0):
        raise Unreadable("mode")
    scales = _scales(view, 2) or _ratios(view)
    return _resized(view, scales, view.text("coordinate_transformation_mode", "half_pixel"))


@importer("Upsample", entry="Resize")
def import_upsample(view: NodeView) -> Canonical:
    """Read Resize under its name before opset 10."""
    if view.opset >= 9:
        return _older(view, _scales(view, 1))
    stated = view.reals("scales")
    return _older(view, None if stated is None else [_fraction(scale) for scale in stated])


def _older(view: NodeView, scales: Sequence[Fraction] | None) -> Canonical:
    """Read a node of an opset before 11. Its nearest element is rounded down only if it enlarges."""
    if view.text("mode", "nearest") == "nearest" and any(s.denominator != 1 for s in scales or ()):
        raise Unreadable("scales")
    return _resized(view, scales, "asymmetric")


def _resized(view: NodeView, scales: Sequence[Fraction] | None, transformation: str) -> Canonical:
    shape, mode = view.shape(0), view.text("mode", "nearest")
    if scales is None or shape is None or len(scales) != len(shape):
        raise Unreadable("scales")
    sizes = [_size(n, scale) for n, scale in zip(shape, scales, strict=True)]
    fractions = [m for m, scale in zip(sizes, scales, strict=True) if scale.denominator != 1]
    leading = next((k for k, scale in enumerate(scales[:2]) if scale != 1), 2)
    kept = leading if leading < len(scales) else len(scales) - 1
    stated = tuple(int(s) if s.denominator == 1 else float(s) for s in scales[kept:])
    # A single position counts as the first one in the modes that only differ from half_pixel by that.
    single = any(not isinstance(m, int) or m < 2 for m in fractions)
    if transformation == "half_pixel_symmetric" and view.opset >= 19 and mode == "nearest":
        transformation = "half_pixel"  # the sizes are whole; in the mode "linear", positions are rounded otherwise
    if transformation == "pytorch_half_pixel" and not single:
        transformation = "half_pixel"
    if mode == "nearest":
        modes = _nearest_modes(view, scales, transformation)
        if any(not isinstance(m, int) or m >= _EXACT // _LARGEST for m in fractions):
            raise Unreadable("sizes")
        return Canonical("Resize", view.inputs[:1], {**modes, "scales": stated})
    if mode != "linear" or transformation not in TRANSFORMATIONS or view.dtype(0) not in FLOAT_DTYPES:
        raise Unreadable("mode")
    if transformation == "align_corners" and single:
        raise Unreadable("sizes")
    return Canonical(
        "ResizeLinear", view.inputs[:1], {"coordinate_transformation_mode": transformation, "scales": stated}
    )


def _nearest_modes(view: NodeView, scales: Sequence[Fraction], transformation: str) -> Mapping[str, Attr]:
    """Return the modes in canonical form: the default ones wherever elements are repeated."""
    rounding = "floor" if view.opset < 11 else view.text("nearest_mode", "round_prefer_floor")
    if rounding not in NEAREST_MODES:
        raise Unreadable("mode")
    if all(s.denominator == 1 and _repeats(transformation, rounding, int(s), view.opset) for s in scales):
        return REPEATING
    if transformation not in TRANSFORMATIONS or transformation == "align_corners":
        raise Unreadable("mode")
    return {"coordinate_transformation_mode": transformation, "nearest_mode": rounding}


def _repeats(transformation: str, rounding: str, scale: int, opset: int) -> bool:
    """Return True if output elements s*q, ..., s*q + s - 1 are input element q, where s is the scale."""
    if transformation == "asymmetric":  # q + r/s, for r from 0 to s - 1
        return rounding == "floor" or scale == 1 or (rounding == "round_prefer_floor" and scale == 2)
    if transformation == "tf_half_pixel_for_nn" and opset < 13:  # q + (r + 1/2)/s
        return rounding == "floor" or (rounding == "round_prefer_floor" and scale == 1)
    # q + (r + 1/2)/s - 1/2, less than 1/2 from q
    centred = transformation in ("half_pixel", "pytorch_half_pixel")
    return centred and (rounding in ("round_prefer_floor", "round_prefer_ceil") or scale == 1)


def _size(n: Size, scale: Fraction) -> Size:
    """Return the size of the result, n * scale. Raises Unreadable unless it is known to be whole."""
    whole = n * scale.numerator
    size = floor_div(whole, scale.denominator)
    if size * scale.denominator != whole:
        raise Unreadable("scales")
    return size


def _scales(view: NodeView, index: int) -> list[Fraction] | None:
    """Return the scales of all axes, or None if the input is absent or an empty list."""
    array = view.array_input(index)
    if array is None:
        return None
    if array.dtype.kind != "f" or array.ndim != 1:
        raise Unreadable("scales")
    return _of_all_axes(view, [_fraction(scale) for scale in array.tolist()], Fraction(1)) if array.size else None


def _fraction(scale: float) -> Fraction:
    """Return a scale as a fraction. Raises Unreadable for one that float32 may only have rounded."""
    try:
        exact = Fraction(scale)
    except (OverflowError, ValueError):  # infinity and NaN
        raise Unreadable("scales") from None
    return _checked(exact)


def _checked(scale: Fraction) -> Fraction:
    p, q = scale.numerator, scale.denominator
    if p < 1 or q & (q - 1) or (q != 1 and max(p, q) > _LARGEST):
        raise Unreadable("scales")
    return scale


def _ratios(view: NodeView) -> list[Fraction] | None:
    """Return the scales of all axes from the sizes of the output, or None if the sizes are absent."""
    sizes, shape = view.list_input(3), view.shape(0)
    if sizes is None or shape is None or view.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    ratios: list[Fraction] = []
    for size, before in zip(_of_all_axes(view, sizes, -1), shape, strict=True):
        if size == -1:  # of an axis that is not resized
            ratios.append(Fraction(1))
        elif isinstance(before, int) and before > 0:
            ratios.append(_checked(Fraction(size, before)))
        else:
            raise Unreadable("sizes")
    return ratios


def _of_all_axes(view: NodeView, values: Sequence[T], other: T) -> list[T]:
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


@exporter("Resize", "ResizeLinear")
def export_resize(e: NodeExport) -> list[onnx.NodeProto]:
    """Write real scales for all axes; Upsample is Resize's name before opset 10."""
    rank = e.term.type.rank if e.term.type is not None else None
    if rank is None:
        raise ModelError("Resize: the rank of the result is unknown; state the shapes of the model's inputs")
    own, linear = e.attrs["scales"], e.term.op == "ResizeLinear"
    scales = [1.0] * (rank - len(own)) + [float(scale) for scale in own]
    modes = {name: value for name, value in e.attrs.items() if name != "scales"}
    if not linear and modes == REPEATING and all(isinstance(scale, int) for scale in own):
        modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}  # repeat as well
    elif e.opset < 11 and not (linear and modes["coordinate_transformation_mode"] == "asymmetric"):
        raise ModelError(f"opset {e.opset} has no Resize with {', '.join(modes.values())} (new in 11)")
    elif e.opset < 10 and min(scales) < 1:
        raise ModelError(f"opset {e.opset} has no Resize that reduces (new in 10)")
    mode = "linear" if linear else "nearest"
    if e.opset < 9:
        return [e.node("Upsample", mode=mode, scales=scales)]
    if 11 <= e.opset < 13:
        e.append([], "float")  # the input `roi` must not be left out
    elif e.opset >= 13:
        e.inputs.append("")
    e.append(scales, "float")
    if e.opset < 11:
        return [e.node("Upsample" if e.opset < 10 else "Resize", mode=mode)]
    return [e.node("Resize", mode=mode, **modes)]
