"""Reductions over named axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from superopt.generate.field.arithmetic import (
    HALF,
    Array,
    Attrs,
    Kernel,
    P,
    Shape,
    negative,
    place_of,
    rank,
    scaled,
    unrank,
)
from superopt.generate.field.functions import exp, log, sqrt

__all__ = ["KERNELS", "absolute", "maximum_over", "mean", "total"]

_P = np.uint64(P)


def absolute(x: Array) -> Array:
    """|x| of the signed number."""
    return np.where(x <= HALF, x, negative(x))


def total(x: Array, axes: Shape, keepdims: bool = True) -> Array:
    """Sum over axes that count from the end."""
    result: Array = x.sum(axis=axes, keepdims=keepdims, dtype=np.uint64) % _P
    return result


def mean(x: Array, axes: Shape, keepdims: bool = True) -> Array:
    """Sum times 1/n."""
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return scaled(total(x, axes, keepdims), pow(count, P - 2, P))


def maximum_over(x: Array, axes: Shape, keepdims: bool = True) -> Array:
    """The largest of the signed numbers."""
    return unrank(np.asarray(rank(x).max(axis=axes, keepdims=keepdims)))


def _minimum(x: Array, axes: Shape, keepdims: bool) -> Array:
    return unrank(np.asarray(rank(x).min(axis=axes, keepdims=keepdims)))


def _product(x: Array, axes: Shape, keepdims: bool) -> Array:
    for axis in axes:
        lines = np.moveaxis(x, axis, 0)
        found = np.ones(lines.shape[1:], dtype=np.uint64)
        for line in lines:
            found = found * line % _P
        x = np.expand_dims(found, axis)
    return x if keepdims else x.squeeze(axes)


_Reduce = Callable[[Array, Shape, bool], Array]


def _reduction(
    reduce: _Reduce, before: Callable[[Array], Array] | None = None, after: Callable[[Array], Array] | None = None
) -> Kernel:
    """after(reduce(before(x)))."""

    def kernel(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
        x = xs[0] if before is None else before(xs[0])
        axes = tuple(place_of(axis, len(shapes[0])) for axis in attrs["axes"])
        found = reduce(x, axes, bool(attrs["keepdims"]))
        return found if after is None else after(found)

    return kernel


def _square(x: Array) -> Array:
    result: Array = x * x % _P
    return result


KERNELS: Mapping[str, Kernel] = {
    "ReduceSum": _reduction(total),
    "ReduceMean": _reduction(mean),
    "ReduceProd": _reduction(_product),
    "ReduceMax": _reduction(maximum_over),
    "ReduceMin": _reduction(_minimum),
    "ReduceL1": _reduction(total, absolute),
    "ReduceL2": _reduction(total, _square, sqrt),
    "ReduceSumSquare": _reduction(total, _square),
    "ReduceLogSum": _reduction(total, None, log),
    "ReduceLogSumExp": _reduction(total, exp, log),
}
