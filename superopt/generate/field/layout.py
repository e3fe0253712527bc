"""Operators that move, cut and join data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from superopt.generate.field.arithmetic import Array, Attrs, Kernel, Shape, lead, place_of, residue

__all__ = ["KERNELS", "cut", "padded", "reshaped"]


def cut(x: Array, axis: int, start: int, end: int, step: int) -> Array:
    """A range along one axis, which counts from the end; an `end` of -1 is before the first element."""
    place: list[Any] = [slice(None)] * x.ndim
    place[axis] = slice(start, None if end < 0 else end, step)
    result: Array = x[tuple(place)]
    return result


def padded(x: Array, shape: Shape, pads: Sequence[int], value: int) -> Array:
    """`x` with `pads` (begins, then ends; negative ones crop) along its tensor axes, of sizes `shape`."""
    rank = len(shape)
    if not any(pads):
        return x
    sizes = tuple(begin + n + end for begin, n, end in zip(pads[:rank], shape, pads[rank:], strict=True))
    stacked = x.shape[: x.ndim - rank]
    result = np.full(stacked + sizes, value, dtype=np.uint64)
    to: list[Any] = [slice(None)] * len(stacked)
    of: list[Any] = [slice(None)] * len(stacked)
    for begin, end, size in zip(pads[:rank], pads[rank:], shape, strict=True):
        first, last = max(0, -begin), size - max(0, -end)
        if first >= last:
            return result
        of.append(slice(first, last))
        to.append(slice(first + begin, last + begin))
    result[tuple(to)] = x[tuple(of)]
    return result


def _concat(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    stacked = lead(xs, shapes)
    parts = [np.broadcast_to(x, stacked + shape) for x, shape in zip(xs, shapes, strict=True)]
    return np.concatenate(parts, axis=place_of(attrs["axis"], len(out)))


def _split(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """The output that the attribute `index` names."""
    start = sum(attrs["split"][: attrs["index"]])
    return cut(xs[0], place_of(attrs["axis"], len(out)), start, start + attrs["split"][attrs["index"]], 1)


def _slice(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    x = xs[0]
    for axis, *part in zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True):
        x = cut(x, place_of(axis, len(out)), *part)
    return x


def _transpose(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    stacked = xs[0].ndim - len(out)
    return xs[0].transpose(*range(stacked), *(stacked + p for p in attrs["perm"]))


def _pad(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    return padded(xs[0], shapes[0], attrs["pads"], residue(attrs["value"]))


def reshaped(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """The same elements in the shape of the result."""
    return xs[0].reshape(xs[0].shape[: xs[0].ndim - len(shapes[0])] + out)


KERNELS: Mapping[str, Kernel] = {
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Transpose": _transpose,
    "Pad": _pad,
    "Unsqueeze": reshaped,
    "Squeeze": reshaped,
}
