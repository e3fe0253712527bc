"""Operators that give the same elements another shape or place.

All of them read one element of the input: what has to be said is at which index. Sources: the operators' pages of the
ONNX specification, Reshape-14, Flatten-13, Expand-13, Tile-13, DepthToSpace-13, SpaceToDepth-13.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from verify.algebra import Algebra
from verify.semantics.common import Definition, broadcast

__all__ = ["DEFINITIONS", "reshaped"]


def reshaped(x_shape: Sizes, y_shape: Sizes, index: Sizes) -> Sizes:
    """The index into x of the element that reshape(x, y_shape) has at `index`: the one of equal row-major offset.

    The sizes of both shapes are refined, from the last axis on, to digits that they have in common; (a*b, c) and
    (a, b*c) have the digits a, b, c. An index of y is taken apart into its digits, an index of x is put together from
    the same digits, so the offset never has to be written down. Where no common digit is to be seen, as from (2, 6)
    to (3, 4), the axes up to the next common boundary go by the offset.

    That both have the same number of elements is for typing to see to; symbolic sizes are at least 1.
    """
    if 0 in x_shape or 0 in y_shape:
        return (0,) * len(x_shape)  # there are no elements
    x, y = _Axes(x_shape), _Axes(y_shape, index)
    while x.open and y.open:
        a, b = x.open[-1], y.open[-1]
        digit = _common(x.sizes[a], y.sizes[b])
        if digit is not None:
            x.put(a, digit, y.take(b, digit))
            continue
        inputs, outputs = _group(x, y)
        offset: Size = 0
        for d in outputs:
            offset = offset * y.sizes[d] + y.take(d, y.sizes[d])
        for d in reversed(inputs):
            size = x.sizes[d]
            x.put(d, size, offset if d == inputs[0] else _remainder(offset, size))
            offset = floor_div(offset, size)
    return tuple(x.values)


class _Axes:
    """A shape that is used up from its end: what remains of each axis, and of the index on it.

    `values`: of an index that is taken apart, what its open digits are worth; of one that is put together, the sum
    so far. `open`: axes that are not used up, in order.
    """

    def __init__(self, shape: Sizes, index: Sizes | None = None) -> None:
        self.sizes = list(shape)
        self.values: list[Size] = [0] * len(shape) if index is None else list(index)
        self.weights: list[Size] = [1] * len(shape)
        self.open = [d for d, size in enumerate(shape) if size != 1]

    def take(self, axis: int, digit: Size) -> Size:
        """The value of the last digit of an axis; its first digit is all that remains."""
        value, last = self.values[axis], digit == self.sizes[axis]
        self.values[axis] = 0 if last else floor_div(value, digit)
        self._use(axis, digit)
        return value if last else _remainder(value, digit)

    def put(self, axis: int, digit: Size, value: Size) -> None:
        """The next digit of an axis, before those that it has."""
        self.values[axis] = self.values[axis] + value * self.weights[axis]
        self.weights[axis] = self.weights[axis] * digit
        self._use(axis, digit)

    def product(self, axes: Iterable[int]) -> Size:
        """How many elements there are to these axes."""
        return math.prod(self.sizes[d] for d in axes)

    def _use(self, axis: int, digit: Size) -> None:
        self.sizes[axis] = floor_div(self.sizes[axis], digit)
        if self.sizes[axis] == 1:
            self.open.remove(axis)


def _common(size: Size, other: Size) -> Size | None:
    """The smaller of two sizes of which one is a multiple of the other, else None."""
    if _divides(other, size):
        return other
    return size if _divides(size, other) else None


def _divides(part: Size, whole: Size) -> bool:
    return floor_div(whole, part) * part == whole


def _group(x: _Axes, y: _Axes) -> tuple[list[int], list[int]]:
    """The fewest open axes from the end of both whose products are equal, or are left equal by what is before them
    (the whole products are). In the end that is all of them."""
    ends = itertools.product(range(len(x.open) + 1), range(len(y.open) + 1))
    for m, n in sorted(ends, key=sum, reverse=True)[1:]:
        if x.product(x.open[m:]) == y.product(y.open[n:]) or x.product(x.open[:m]) == y.product(y.open[:n]):
            break
    return x.open[m:], y.open[n:]


def _remainder(value: Size, divisor: Size) -> Size:
    return value - divisor * floor_div(value, divisor)


def _reshape(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Reshape and Flatten: the element of the same row-major offset."""
    return xs[0].at(*reshaped(xs[0].shape, shape, i))


def _expand(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x broadcast to the output's shape, which is that of x and of the attribute broadcast together."""
    return broadcast(xs[0], i)


def _tile(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[i mod size]; an axis that is not repeated has i < size."""
    axes = zip(i, xs[0].shape, attrs["repeats"], strict=True)
    return xs[0].at(*(0 if n == 1 else j if count == 1 else _remainder(j, n) for j, n, count in axes))


def _depth_to_space(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """y[n, c, h*B + p, w*B + q] = x[n, depth, h, w], where the depth has the digits (p, q, c) in mode DCR and
    (c, p, q) in mode CRD."""
    block, (n, c, row, column) = attrs["blocksize"], i
    depth, height, width = xs[0].shape[1:]
    h, p = reshaped((height, block), shape[2:3], (row,))
    w, q = reshaped((width, block), shape[3:4], (column,))
    if attrs["mode"] == "DCR":
        own = reshaped((depth,), (block, block, shape[1]), (p, q, c))
    else:
        own = reshaped((depth,), (shape[1], block, block), (c, p, q))
    return xs[0].at(n, *own, h, w)


def _space_to_depth(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """y[n, depth, h, w] = x[n, c, h*B + p, w*B + q], where the depth has the digits (p, q, c)."""
    block, (n, depth, h, w) = attrs["blocksize"], i
    p, q, c = reshaped((block, block, xs[0].shape[1]), shape[1:2], (depth,))
    return xs[0].at(n, c, h * block + p, w * block + q)


DEFINITIONS: Mapping[str, Definition] = {
    "Reshape": _reshape,
    "Flatten": _reshape,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
