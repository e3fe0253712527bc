"""Resize: interpolation along the last axes, at integer scales and at scales that are fractions with a power of two.

Output position i of an axis stands for the position c of the input (n: input size, m: output size, s: scale = m / n):

    half_pixel      c = (i + 1/2) / s - 1/2
    asymmetric      c = i / s
    align_corners   c = i * (n - 1) / (m - 1)

Both operators here are ONNX's Resize. `Resize` is its mode "nearest", which moves data, and `ResizeLinear` its mode
"linear", which computes. At the sizes that the type rule accepts, pytorch_half_pixel is half_pixel.

ONNX Runtime rounds c to float32. That does not change the nearest element of an axis of less than 2^23 / p elements at
a scale p / q, except for align_corners, which `Resize` therefore lacks. The weights of `ResizeLinear` are applications
of a function without laws, so no proof depends on how they are rounded.

Source: the operator's page of the ONNX specification, Resize-19.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

from superopt.ir.dim import Size, Sizes, ceil_div, floor_div
from superopt.ops.algebra import Algebra, Piece, at_least, below
from superopt.ops.entry import operator
from superopt.ops.typing import IllTyped, Need, floats, need_at_most, need_equal

__all__ = ["NEAREST_MODES", "REPEATING", "TRANSFORMATIONS"]

TRANSFORMATIONS = ("align_corners", "asymmetric", "half_pixel")
NEAREST_MODES = ("ceil", "floor", "round_prefer_ceil", "round_prefer_floor")
# ONNX's defaults, with which scales of 1, 2, 3, ... repeat elements. The canonical form of all modes that do.
REPEATING = {"coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor"}


def _ratio(scale: Size | float) -> tuple[Size, int]:
    """Return a scale as a numerator and a denominator. Raises IllTyped for an infinite scale or NaN."""
    if not isinstance(scale, float):
        return scale, 1
    if not math.isfinite(scale):
        raise IllTyped(f"scale {scale}")
    exact = Fraction(scale)
    return exact.numerator, exact.denominator


def _resized(x: Sizes, attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """Require a whole size times scale: ONNX Runtime rounds others down, and copies where all sizes stay the same."""
    scales = attrs["scales"]
    if len(scales) > len(x):
        raise IllTyped("Resize has more scales than axes")
    kept = len(x) - len(scales)
    result = list(x[:kept])
    for size, scale in zip(x[kept:], scales, strict=True):
        numerator, denominator = _ratio(scale)
        need_at_most(need, 1, numerator)
        whole = size * numerator
        result.append(floor_div(whole, denominator))
        need_equal(need, result[-1] * denominator, whole)
        if attrs["coordinate_transformation_mode"] == "align_corners" and scale != 1:
            need_at_most(need, 2, result[-1])  # a single position has no second corner
    return (tuple(result),)


def _nearest_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    transformation, rounding = attrs["coordinate_transformation_mode"], attrs["nearest_mode"]
    if transformation not in TRANSFORMATIONS or transformation == "align_corners" or rounding not in NEAREST_MODES:
        raise IllTyped(f"Resize has no definition for {transformation} with {rounding}")
    return _resized(shapes[0], attrs, need)


def _linear_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["coordinate_transformation_mode"] not in TRANSFORMATIONS:
        raise IllTyped(f"ResizeLinear has no definition for {attrs['coordinate_transformation_mode']}")
    return _resized(shapes[0], attrs, need)


def _coordinate(attrs: Mapping[str, Any], i: Size, n: Size, m: Size, scale: Size | float) -> tuple[Size, Size]:
    """Return the position c as a fraction: numerator, and denominator >= 1."""
    p, q = _ratio(scale)
    transformation = attrs["coordinate_transformation_mode"]
    if transformation == "half_pixel":
        return i * (2 * q) + (q - p), p * 2
    if transformation == "asymmetric":
        return i * q, p
    return i * (n - 1), m - 1


def _enlarges(scale: Size | float) -> bool:
    """Return True if the scale may be above 1."""
    return not isinstance(scale, (int, float)) or scale > 1


def _rounded(rounding: str, numerator: Size, denominator: Size) -> Size:
    """Return a fraction rounded to a whole number."""
    if rounding == "floor":
        return floor_div(numerator, denominator)
    if rounding == "ceil":
        return ceil_div(numerator, denominator)
    if rounding == "round_prefer_floor":  # ceil(c - 1/2)
        return ceil_div(numerator * 2 - denominator, denominator * 2)
    return floor_div(numerator * 2 + denominator, denominator * 2)


@operator(
    "Resize", 1, 1, "coordinate_transformation_mode=half_pixel nearest_mode=round_prefer_floor scales",
    shape=_nearest_type,
)  # fmt: skip
def _resize(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x at c, rounded to a whole number and limited to 0 <= c < n. At a scale s = 1, 2, 3, ... the default is
    x[floor(i / s)], which repeats elements."""
    x, scales = xs[0], attrs["scales"]
    kept = len(i) - len(scales)
    centred, rounding = attrs["coordinate_transformation_mode"] == "half_pixel", attrs["nearest_mode"]
    rounds = rounding.startswith("round")

    def over(axis: int, place: Sizes) -> Any:
        if axis == len(i):
            return x.at(*place)
        n, scale = x.shape[axis], scales[axis - kept]

        def at(own: Size) -> Any:
            return over(axis + 1, (*place, own))

        if scale == 1:
            return at(i[axis])
        if centred and rounds and not isinstance(scale, float):
            return at(floor_div(i[axis], scale))
        numerator, denominator = _coordinate(attrs, i[axis], n, shape[axis], scale)
        own = _rounded(rounding, numerator, denominator)
        if not _enlarges(scale) or (rounds if centred else rounding == "floor"):
            return at(own)  # 0 <= c <= n - 1, or c rounds to such a number
        if centred and rounding == "floor":  # -1/2 < c < n - 1/2
            return g.piecewise([([below(own, 0)], lambda: at(0)), ([at_least(own, 0)], lambda: at(own))], None)
        return g.piecewise([([at_least(own, n)], lambda: at(n - 1)), ([below(own, n)], lambda: at(own))], None)

    return over(kept, tuple(i[:kept]))


@operator("ResizeLinear", 1, 1, "coordinate_transformation_mode=half_pixel scales", shape=_linear_type, dtype=floats)
def _resize_linear(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """The sum over t = 0, 1 of (1 - |c - k - t|) * x[k + t] along each axis, with k = floor(c); x[0] for c < 0 and
    x[n - 1] for c >= n - 1."""
    x, scales = xs[0], attrs["scales"]
    kept = len(i) - len(scales)

    def over(axis: int, place: Sizes, weights: tuple[Any, ...]) -> Any:
        if axis == len(i):
            return reduce(g.multiply, (*weights, x.at(*place)))
        n, m, scale = x.shape[axis], shape[axis], scales[axis - kept]

        def at(own: Size, *weight: Any) -> Any:
            return over(axis + 1, (*place, own), (*weights, *weight))

        if scale == 1 or n == 1:
            return at(i[axis] if scale == 1 else 0)
        numerator, denominator = _coordinate(attrs, i[axis], n, m, scale)

        def tap(t: Size) -> Any:
            weight = g.apply("interpolation_weight", *map(g.size, (numerator, denominator, t)))
            return at(floor_div(numerator, denominator) + t, weight)

        def between() -> Any:
            return g.summation(2, tap)

        if attrs["coordinate_transformation_mode"] == "align_corners":
            inner = below(i[axis], m - 1)
            first, middle, last = [inner, at_least(1, n)], [inner, at_least(n, 2)], [at_least(i[axis], m - 1)]
        elif not _enlarges(scale):
            return between()  # 0 <= c < n - 1
        else:
            end = (n - 1) * denominator
            inner = below(numerator, end)
            first, middle, last = (
                [inner, below(numerator, 0)],
                [inner, at_least(numerator, 0)],
                [at_least(numerator, end)],
            )
        pieces: list[Piece] = [(middle, between), (last, lambda: at(n - 1))]
        if attrs["coordinate_transformation_mode"] != "asymmetric":
            pieces.append((first, lambda: at(0)))
        return g.piecewise(pieces, None)

    return over(kept, tuple(i[:kept]), ())
