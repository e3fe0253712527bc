"""Pooling. `ceil_mode` and `auto_pad` come as explicit pads (see `superopt.ir.operators.pool`)."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Size, Sizes
from verify.algebra import Algebra, Guard
from verify.semantics.common import Definition, inside
from verify.semantics.reduce import average, sum_over

__all__ = ["DEFINITIONS"]


class _Windows:
    """The windows of a pooling: position k of window p is x[s*p + d*k - pad] along each axis."""

    def __init__(self, x: Any, attrs: Mapping[str, Any], place: Sizes) -> None:
        self._sizes, self._attrs, self._place = x.shape[2:], attrs, place

    def source(self, window: Sizes) -> Sizes:
        """The place in x of a position of the window."""
        strides, dilations, begins = (
            self._attrs["strides"],
            self._attrs["dilations"],
            self._attrs["pads"][: len(window)],
        )
        parts = zip(self._place, window, strides, dilations, begins, strict=True)
        return tuple(p * s + k * d - pad for p, k, s, d, pad in parts)

    def bounds(self, window: Sizes) -> list[Guard]:
        """That the place is in x. Along an axis without padding all are."""
        pads, spatial = self._attrs["pads"], len(self._sizes)
        padded = [(pads[d], pads[spatial + d]) != (0, 0) for d in range(spatial)]
        places = zip(self.source(window), self._sizes, padded, strict=True)
        return [guard for j, size, pad in places if pad for guard in inside(j, 0, size)]


def _max_pool(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """max over the window's positions in x (MaxPool since 12; the padding takes no part)."""
    (x,), windows = xs, _Windows(xs[0], attrs, i[2:])
    return g.supremum(
        tuple(attrs["kernel_shape"]),
        lambda *window: windows.bounds(window),
        lambda *window: x.at(*i[:2], *windows.source(window)),
    )


def _average_pool(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """(sum over the window of x, taken as 0 outside its bounds) / n (AveragePool since 19).

    n is the number of positions in the window; without `count_include_pad`, of those in x.
    """
    (x,), windows, kernel = xs, _Windows(xs[0], attrs, i[2:]), tuple(attrs["kernel_shape"])
    zero, one = g.constant(Fraction(0)), g.constant(Fraction(1))

    def padded(*window: Size) -> Any:
        return g.piecewise([(windows.bounds(window), lambda: x.at(*i[:2], *windows.source(window)))], zero)

    if attrs["count_include_pad"] or not any(attrs["pads"]):
        return average(g, kernel, padded)
    count = sum_over(g, kernel, lambda *window: g.where(windows.bounds(window), lambda: one))
    return g.multiply(sum_over(g, kernel, padded), g.apply("reciprocal", count))


def _global_max_pool(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """max over all axes but the first two (GlobalMaxPool since 1)."""
    return g.supremum(xs[0].shape[2:], lambda *k: [], lambda *k: xs[0].at(*i[:2], *k))


def _global_average_pool(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Mean over all axes but the first two (GlobalAveragePool since 1)."""
    return average(g, xs[0].shape[2:], lambda *k: xs[0].at(*i[:2], *k))


DEFINITIONS: Mapping[str, Definition] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalMaxPool": _global_max_pool,
    "GlobalAveragePool": _global_average_pool,
}
