"""Operators that give the same elements another shape or place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.generate.field.arithmetic import Array, Attrs, Kernel, Shape, lift
from superopt.generate.field.layout import reshaped

__all__ = ["KERNELS"]


def _stacked(x: Array, shape: Shape) -> Shape:
    return x.shape[: x.ndim - len(shape)]


def _expand(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    return np.broadcast_to(lift(xs[0], shapes[0], len(out)), _stacked(xs[0], shapes[0]) + out)


def _tile(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    return np.tile(xs[0], (1,) * len(_stacked(xs[0], out)) + tuple(attrs["repeats"]))


def _depth_to_space(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    (n, c, h, w), b, stacked = shapes[0], attrs["blocksize"], _stacked(xs[0], out)
    depth = c // (b * b)
    if attrs["mode"] == "DCR":
        blocks = xs[0].reshape((*stacked, n, b, b, depth, h, w))
        order = (0, 3, 4, 1, 5, 2)
    else:
        blocks = xs[0].reshape((*stacked, n, depth, b, b, h, w))
        order = (0, 1, 4, 2, 5, 3)
    return _permuted(blocks, order).reshape(stacked + out)


def _space_to_depth(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    (n, c, h, w), b, stacked = shapes[0], attrs["blocksize"], _stacked(xs[0], out)
    blocks = xs[0].reshape((*stacked, n, c, h // b, b, w // b, b))
    return _permuted(blocks, (0, 3, 5, 1, 2, 4)).reshape(stacked + out)


def _permuted(x: Array, order: Shape) -> Array:
    first = x.ndim - len(order)
    return x.transpose(*range(first), *(first + axis for axis in order))


KERNELS: Mapping[str, Kernel] = {
    "Reshape": reshaped,
    "Flatten": reshaped,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
