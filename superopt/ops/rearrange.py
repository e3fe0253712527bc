"""Operators that rearrange elements: reshape, expand, tile, and move between channels and space.

Reshape keeps the shape of the file, including the marks 0 (the input's size) and -1 (the remaining size), so that one
term serves every size. A symbolic size in it is at least 1, never one of the marks.

Each output element is one element of the input; a definition gives its index. Sources: the operators' pages of the
ONNX specification, Reshape-14, Flatten-13, Expand-13, Tile-13, DepthToSpace-13, SpaceToDepth-13.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ops.algebra import Algebra
from superopt.ops.definition import broadcast
from superopt.ops.entry import operator
from superopt.ops.typing import IllTyped, Need, broadcast_shapes, need_at_most, need_equal

__all__ = ["reshaped"]


def _left(sizes: Sequence[Size], others: Sequence[Size]) -> Size:
    """Return product(sizes) // product(others). Common sizes cancel first: polynomials divide by monomials only."""
    rest, divisor = list(sizes), []
    for size in others:
        if size in rest:
            rest.remove(size)
        else:
            divisor.append(size)
    return floor_div(math.prod(rest), math.prod(divisor))


def _reshape_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, copies = shapes[0], not attrs["allowzero"]
    result: list[Size] = []
    inferred: int | None = None
    for d, size in enumerate(attrs["shape"]):
        if size == -1 and inferred is not None:
            raise IllTyped("Reshape infers one size at the most")
        if size == -1:
            inferred, size = d, 1
        elif size == 0 and copies:
            if d >= len(x):
                raise IllTyped(f"Reshape copies size {d} of rank {len(x)}")
            size = x[d]
        else:
            need_at_most(need, 0 if size == 0 else 1, size)
        result.append(size)
    if inferred is not None:
        for size in result:
            need_at_most(need, 1, size)  # beside a size 0 the inferred size is not determined
        result[inferred] = _left(x, result)
    need_equal(need, math.prod(result), math.prod(x))
    return (tuple(result),)


def _remainder(value: Size, divisor: Size) -> Size:
    return value - divisor * floor_div(value, divisor)


class _Axes:
    """A shape whose axes are split into digits from the end: the remaining sizes, and the index along them.

    `values`: the part of each index that `take` has not used yet, or that `put` has assembled so far. `open`: the axes
    with digits left, in order.
    """

    def __init__(self, shape: Sizes, index: Sizes | None = None) -> None:
        self.sizes = list(shape)
        self.values: list[Size] = [0] * len(shape) if index is None else list(index)
        self.weights: list[Size] = [1] * len(shape)
        self.open = [d for d, size in enumerate(shape) if size != 1]

    def take(self, axis: int, digit: Size) -> Size:
        """Take the last digit off an axis, and return its value."""
        value, last = self.values[axis], digit == self.sizes[axis]
        self.values[axis] = 0 if last else floor_div(value, digit)
        self._use(axis, digit)
        return value if last else _remainder(value, digit)

    def put(self, axis: int, digit: Size, value: Size) -> None:
        """Put a digit before those that an axis has."""
        self.values[axis] = self.values[axis] + value * self.weights[axis]
        self.weights[axis] = self.weights[axis] * digit
        self._use(axis, digit)

    def product(self, axes: Iterable[int]) -> Size:
        """Return the number of elements along these axes."""
        return math.prod(self.sizes[d] for d in axes)

    def _use(self, axis: int, digit: Size) -> None:
        self.sizes[axis] = floor_div(self.sizes[axis], digit)
        if self.sizes[axis] == 1:
            self.open.remove(axis)


def _divides(part: Size, whole: Size) -> bool:
    return floor_div(whole, part) * part == whole


def _common(size: Size, other: Size) -> Size | None:
    """Return the smaller of two sizes if it divides the other, else None."""
    if _divides(other, size):
        return other
    return size if _divides(size, other) else None


def _group(x: _Axes, y: _Axes) -> tuple[list[int], list[int]]:
    """Return the shortest ends of the open axes of both shapes that have equal numbers of elements.

    The numbers count as equal if the products of the axes are, or the products of the axes before them: the whole
    products are equal. The result may be all axes.
    """
    ends = itertools.product(range(len(x.open) + 1), range(len(y.open) + 1))
    for m, n in sorted(ends, key=sum, reverse=True)[1:]:
        if x.product(x.open[m:]) == y.product(y.open[n:]) or x.product(x.open[:m]) == y.product(y.open[:n]):
            break
    return x.open[m:], y.open[n:]


def reshaped(x_shape: Sizes, y_shape: Sizes, index: Sizes) -> Sizes:
    """Return the index into x of the element of reshape(x, y_shape) at `index`: both have the same row-major offset.

    Both shapes are split, from the last axis on, into common digits: (a*b, c) and (a, b*c) have the digits a, b, c. An
    index of y is split into its digits, and an index of x is assembled from the same digits, so no offset is needed. If
    no common digit is found, as from (2, 6) to (3, 4), the axes up to the next common boundary use the offset.

    Typing ensures that both shapes have the same number of elements. Symbolic sizes are at least 1.
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


@operator("Reshape", 1, 1, "allowzero=0 shape", shape=_reshape_type)
def _reshape(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Reshape and Flatten: the element of the same row-major offset."""
    return xs[0].at(*reshaped(xs[0].shape, shape, i))


def _flatten(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), axis = shapes, attrs["axis"]
    if not 0 <= axis <= len(x):
        raise IllTyped(f"axis {axis} outside rank {len(x)}")
    return ((math.prod(x[:axis]), math.prod(x[axis:])),)


operator("Flatten", 1, 1, "axis=1", shape=_flatten)(_reshape)


def _expand_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    for size in attrs["shape"]:
        need_at_most(need, 0, size)
    return (broadcast_shapes([shapes[0], tuple(attrs["shape"])], need),)


@operator("Expand", 1, 1, "shape", shape=_expand_type)
def _expand(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x broadcast to the output's shape: the shape of x and the attribute, broadcast together."""
    return broadcast(xs[0], i)


def _tile_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), repeats = shapes, attrs["repeats"]
    if len(repeats) != len(x):
        raise IllTyped("Tile's repeats do not fit its rank")
    for count in repeats:
        need_at_most(need, 0, count)
    return (tuple(size * count for size, count in zip(x, repeats, strict=True)),)


@operator("Tile", 1, 1, "repeats", shape=_tile_type)
def _tile(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[i mod size]; an axis that is not repeated has i < size."""
    axes = zip(i, xs[0].shape, attrs["repeats"], strict=True)
    return xs[0].at(*(0 if n == 1 else j if count == 1 else _remainder(j, n) for j, n, count in axes))


def _image(shape: Sizes, attrs: Mapping[str, Any], need: Need) -> tuple[Size, Size, Size, Size, Size]:
    if len(shape) != 4:
        raise IllTyped("blocks are of images: batch, depth, height, width")
    need_at_most(need, 1, attrs["blocksize"])
    n, c, h, w = shape
    return n, c, h, w, attrs["blocksize"]


def _exact(size: Size, parts: Size, need: Need) -> Size:
    quotient = floor_div(size, parts)
    need_equal(need, quotient * parts, size)
    return quotient


def _depth_to_space_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["mode"] not in ("DCR", "CRD"):
        raise IllTyped(f"mode {attrs['mode']}")
    n, c, h, w, block = _image(shapes[0], attrs, need)
    return ((n, _exact(c, block * block, need), h * block, w * block),)


@operator("DepthToSpace", 1, 1, "blocksize mode=DCR", shape=_depth_to_space_type)
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


def _space_to_depth_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    n, c, h, w, block = _image(shapes[0], attrs, need)
    return ((n, c * block * block, _exact(h, block, need), _exact(w, block, need)),)


@operator("SpaceToDepth", 1, 1, "blocksize", shape=_space_to_depth_type)
def _space_to_depth(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """y[n, depth, h, w] = x[n, c, h*B + p, w*B + q], where the depth has the digits (p, q, c)."""
    block, (n, depth, h, w) = attrs["blocksize"], i
    p, q, c = reshaped((block, block, xs[0].shape[1]), shape[1:2], (depth,))
    return xs[0].at(n, c, h * block + p, w * block + q)
