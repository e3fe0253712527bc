"""Pooling: the window's positions in turn, each over all windows at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from superopt.generate.field.arithmetic import Array, Attrs, Kernel, P, Shape, inverse, rank, scaled, unrank
from superopt.generate.field.conv import window_part
from superopt.generate.field.layout import padded
from superopt.generate.field.reduce import maximum_over, mean

__all__ = ["KERNELS"]

_P = np.uint64(P)


def _positions(x: Array, shape: Shape, attrs: Attrs, out: Shape) -> Iterator[Array]:
    """Each position of the windows over x, which is padded by zeros."""
    spatial, pads = len(out) - 2, attrs["pads"]
    x = padded(x, shape, (0, 0, *pads[:spatial], 0, 0, *pads[spatial:]), 0)
    for place in np.ndindex(*attrs["kernel_shape"]):
        yield window_part(x, place, attrs, out[2:])


def _max_pool(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """The padding takes no part: its 0 is the lowest rank."""
    first, *rest = _positions(rank(xs[0]), shapes[0], attrs, out)
    for part in rest:
        first = np.maximum(first, part)
    return unrank(first)


def _sum(x: Array, shape: Shape, attrs: Attrs, out: Shape) -> Array:
    first, *rest = _positions(x, shape, attrs, out)
    for part in rest:
        first = first + part
    result: Array = first % _P
    return result


def _average_pool(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """(sum over the window of x, with 0 for the padding) / n, where n counts the padding or not."""
    found = _sum(xs[0], shapes[0], attrs, out)
    if attrs["count_include_pad"] or not any(attrs["pads"]):
        return scaled(found, pow(int(np.prod(attrs["kernel_shape"])), -1, P))
    counts = _sum(np.ones(shapes[0], dtype=np.uint64), shapes[0], attrs, out)
    result: Array = found * inverse(counts) % _P
    return result


def _spatial(out: Shape) -> Shape:
    return tuple(range(2 - len(out), 0))


KERNELS: Mapping[str, Kernel] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalMaxPool": lambda xs, shapes, attrs, out: maximum_over(xs[0], _spatial(out)),
    "GlobalAveragePool": lambda xs, shapes, attrs, out: mean(xs[0], _spatial(out)),
}
