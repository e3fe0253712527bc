"""Operators that give the same elements another shape or place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE"]


def _reshape(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (x,) = inputs
    copies = not attrs["allowzero"]
    return [x.reshape([x.shape[d] if n == 0 and copies else n for d, n in enumerate(attrs["shape"])])]


def _flatten(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (x,), axis = inputs, attrs["axis"]
    return [x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))]


def _expand(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    return [np.broadcast_to(inputs[0], np.broadcast_shapes(inputs[0].shape, attrs["shape"]))]


def _depth_to_space(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (n, c, h, w), b = inputs[0].shape, attrs["blocksize"]
    depth = c // (b * b)
    if attrs["mode"] == "DCR":
        blocks = inputs[0].reshape(n, b, b, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = inputs[0].reshape(n, depth, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return [blocks.reshape(n, depth, h * b, w * b)]


def _space_to_depth(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (n, c, h, w), b = inputs[0].shape, attrs["blocksize"]
    blocks = inputs[0].reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return [blocks.reshape(n, b * b * c, h // b, w // b)]


COMPUTE: Mapping[str, Compute] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Expand": _expand,
    "Tile": lambda inputs, attrs: [np.tile(inputs[0], attrs["repeats"])],
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
