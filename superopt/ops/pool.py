"""Pooling operators.

`ceil_mode` is not an attribute here: in canonical form, more padding at the end gives the same windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ops.algebra import Algebra, Guard
from superopt.ops.definition import average, inside, sum_over
from superopt.ops.entry import composite, operator
from superopt.ops.typing import IllTyped, Need, floats, need_at_most, numbers


def _pool(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), spatial = shapes, len(shapes[0]) - 2
    kernel, dilations, strides, pads = (attrs[name] for name in ("kernel_shape", "dilations", "strides", "pads"))
    if spatial < 1 or {len(kernel), len(dilations), len(strides)} != {spatial} or len(pads) != 2 * spatial:
        raise IllTyped("the ranks of a pooling do not fit")
    for positive in (*kernel, *dilations, *strides):
        need_at_most(need, 1, positive)
    result: list[Size] = [x[0], x[1]]
    for d, size in enumerate(x[2:]):
        begin, end = pads[d], pads[spatial + d]
        if (begin, end) != (0, 0):
            # No window may lie in the padding alone: it would have no largest element and no average. Pads are below
            # the kernel's size (ONNX Runtime refuses others), so only a dilated window can step over all of x.
            for pad in (begin, end):
                need_at_most(need, 0, pad)
                need_at_most(need, pad, kernel[d] - 1)
            if dilations[d] != 1:
                need_at_most(need, dilations[d], size)
        room = size + begin + end - ((kernel[d] - 1) * dilations[d] + 1)
        need_at_most(need, 0, room)
        result.append(floor_div(room, strides[d]) + 1)
    return (tuple(result),)


class _Windows:
    """The windows of a pooling operator: position k of window p is x[s*p + d*k - pad] along each axis."""

    def __init__(self, x: Any, attrs: Mapping[str, Any], place: Sizes) -> None:
        self._sizes, self._attrs, self._place = x.shape[2:], attrs, place

    def source(self, window: Sizes) -> Sizes:
        """Return the place in x of a position of the window."""
        strides, dilations, begins = (
            self._attrs["strides"],
            self._attrs["dilations"],
            self._attrs["pads"][: len(window)],
        )
        parts = zip(self._place, window, strides, dilations, begins, strict=True)
        return tuple(p * s + k * d - pad for p, k, s, d, pad in parts)

    def bounds(self, window: Sizes) -> list[Guard]:
        """Return the conditions for a position of the window to be in x: none along an axis without padding."""
        pads, spatial = self._attrs["pads"], len(self._sizes)
        padded = [(pads[d], pads[spatial + d]) != (0, 0) for d in range(spatial)]
        places = zip(self.source(window), self._sizes, padded, strict=True)
        return [guard for j, size, pad in places if pad for guard in inside(j, 0, size)]


@operator("MaxPool", 1, 1, "dilations kernel_shape pads strides", shape=_pool, dtype=numbers)
def _max_pool(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """max over the window's positions in x (MaxPool since 12; padding is ignored)."""
    (x,), windows = xs, _Windows(xs[0], attrs, i[2:])
    return g.supremum(
        tuple(attrs["kernel_shape"]),
        lambda *window: windows.bounds(window),
        lambda *window: x.at(*i[:2], *windows.source(window)),
    )


@operator("AveragePool", 1, 1, "count_include_pad=0 dilations kernel_shape pads strides", shape=_pool, dtype=floats)
def _average_pool(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """(sum over the window of x, with x = 0 outside its bounds) / n (AveragePool since 19).

    n is the number of positions in the window; without `count_include_pad`, the number of those inside x.
    """
    (x,), windows, kernel = xs, _Windows(xs[0], attrs, i[2:]), tuple(attrs["kernel_shape"])
    zero, one = g.constant(Fraction(0)), g.constant(Fraction(1))

    def padded(*window: Size) -> Any:
        return g.piecewise([(windows.bounds(window), lambda: x.at(*i[:2], *windows.source(window)))], zero)

    if attrs["count_include_pad"] or not any(attrs["pads"]):
        return average(g, kernel, padded)
    count = sum_over(g, kernel, lambda *window: g.where(windows.bounds(window), lambda: one))
    return g.multiply(sum_over(g, kernel, padded), g.apply("reciprocal", count))


def _global_pool(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    if len(x) < 3:
        raise IllTyped("a global pooling needs something to pool")
    for size in x[2:]:
        need_at_most(need, 1, size)
    return ((x[0], x[1], *(1 for _ in x[2:])),)


composite(
    "GlobalMaxPool", 1, 1, "", "GlobalMaxPool(x) = ReduceMax[axes=range(2, x.rank)](x)",
    shape=_global_pool, dtype=floats,
)  # fmt: skip
composite(
    "GlobalAveragePool", 1, 1, "", "GlobalAveragePool(x) = ReduceMean[axes=range(2, x.rank)](x)",
    shape=_global_pool, dtype=floats,
)  # fmt: skip
