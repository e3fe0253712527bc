"""Operators that give the same elements another shape or place.

Reshape keeps the shape that the file gives, 0 (the input's size) and -1 (what is left) included, so that one term
serves every size. A symbolic size in it is a size: it is at least 1, never one of these two marks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ir.operators.spec import IllTyped, Need, broadcast, need_at_most, need_equal, op

__all__ = ["SPECS"]


def _reshape(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
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
            need_at_most(need, 1, size)  # nothing says what a size beside 0 is
        result[inferred] = _left(x, result)
    need_equal(need, math.prod(result), math.prod(x))
    return (tuple(result),)


def _left(sizes: Sequence[Size], others: Sequence[Size]) -> Size:
    """product(sizes) // product(others). What both have cancels first: polynomials divide by monomials only."""
    rest, divisor = list(sizes), []
    for size in others:
        if size in rest:
            rest.remove(size)
        else:
            divisor.append(size)
    return floor_div(math.prod(rest), math.prod(divisor))


def _flatten(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), axis = shapes, attrs["axis"]
    if not 0 <= axis <= len(x):
        raise IllTyped(f"axis {axis} outside rank {len(x)}")
    return ((math.prod(x[:axis]), math.prod(x[axis:])),)


def _expand(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    for size in attrs["shape"]:
        need_at_most(need, 0, size)
    return (broadcast([shapes[0], tuple(attrs["shape"])], need),)


def _tile(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), repeats = shapes, attrs["repeats"]
    if len(repeats) != len(x):
        raise IllTyped("Tile's repeats do not fit its rank")
    for count in repeats:
        need_at_most(need, 0, count)
    return (tuple(size * count for size, count in zip(x, repeats, strict=True)),)


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


def _depth_to_space(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["mode"] not in ("DCR", "CRD"):
        raise IllTyped(f"mode {attrs['mode']}")
    n, c, h, w, block = _image(shapes[0], attrs, need)
    return ((n, _exact(c, block * block, need), h * block, w * block),)


def _space_to_depth(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    n, c, h, w, block = _image(shapes[0], attrs, need)
    return ((n, c * block * block, _exact(h, block, need), _exact(w, block, need)),)


SPECS = (
    op("Reshape", 1, 1, "allowzero=0 shape", shape=_reshape),
    op("Flatten", 1, 1, "axis=1", shape=_flatten),
    op("Expand", 1, 1, "shape", shape=_expand),
    op("Tile", 1, 1, "repeats", shape=_tile),
    op("DepthToSpace", 1, 1, "blocksize mode=DCR", shape=_depth_to_space),
    op("SpaceToDepth", 1, 1, "blocksize", shape=_space_to_depth),
)
