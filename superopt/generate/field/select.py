"""Operators that pick elements by position, and running sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.generate.field.arithmetic import Array, Attrs, Kernel, P, Shape, place_of

__all__ = ["KERNELS"]

_P = np.uint64(P)


def _gather(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    axis = place_of(attrs["axis"], len(shapes[0]))
    return np.take(xs[0], np.array(attrs["indices"], dtype=np.int64), axis=xs[0].ndim + axis)


def _trilu(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    return (np.triu if attrs["upper"] else np.tril)(xs[0], attrs["k"])


def _resize(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """Each element repeated along the last axes."""
    result = xs[0]
    for back, scale in enumerate(reversed(attrs["scales"]), 1):
        result = np.repeat(result, scale, axis=-back)
    return result


def _cumsum(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    axis = place_of(attrs["axis"], len(out))
    x = np.flip(xs[0], axis) if attrs["reverse"] else xs[0]
    sums = np.cumsum(x, axis, dtype=np.uint64)
    if attrs["exclusive"]:
        sums = sums - x
    sums %= _P
    return np.flip(sums, axis) if attrs["reverse"] else sums


KERNELS: Mapping[str, Kernel] = {"Gather": _gather, "Trilu": _trilu, "Resize": _resize, "CumSum": _cumsum}
