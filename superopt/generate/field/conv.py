"""Convolutions: the kernel's places in turn, each over all windows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from superopt.generate.field.arithmetic import Array, Attrs, Kernel, P, Shape, lead, per_last
from superopt.generate.field.layout import cut, padded

__all__ = ["KERNELS", "window_part"]

_P = np.uint64(P)


def window_part(x: Array, place: Sequence[int], attrs: Attrs, size: Shape) -> Array:
    """Position `place` of each of the `size` windows over the last axes of x, which is padded already."""
    for d, k in enumerate(place):
        step = attrs["strides"][d]
        start = k * attrs["dilations"][d]
        x = cut(x, d - len(place), start, start + (size[d] - 1) * step + 1, step)
    return x


def _biased(x: Array, xs: Sequence[Array], spatial: int) -> Array:
    """`x` plus the bias of each channel, if there is one."""
    if len(xs) < 3:
        return x
    result: Array = (x + np.expand_dims(per_last(xs[2], spatial), -2 - spatial)) % _P
    return result


def _conv(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    (batch, channels, *_), (features, width, *window) = shapes[0], shapes[1]
    groups, spatial, pads = attrs["group"], len(out) - 2, tuple(attrs["pads"])
    x = padded(xs[0], shapes[0], (0, 0, *pads[:spatial], 0, 0, *pads[spatial:]), 0)
    assert channels == groups * width
    x = x.reshape((*x.shape[: x.ndim - len(out)], batch, groups, 1, width, *x.shape[x.ndim - spatial :]))
    stacked = xs[1].shape[: xs[1].ndim - len(shapes[1])]
    w = xs[1].reshape((*stacked, 1, groups, features // groups, width, *window))
    result = np.zeros((*lead(xs[:2], shapes[:2]), batch, groups, features // groups, *out[2:]), dtype=np.uint64)
    for c in range(width):
        channel = np.take(x, c, axis=-1 - spatial)
        for place in np.ndindex(*window):
            weight: Array = w[(..., c, *place)]
            result += window_part(channel, place, attrs, out[2:]) * per_last(weight, spatial) % _P
    result %= _P
    return _biased(result.reshape(result.shape[: result.ndim - spatial - 3] + out), xs, spatial)


def _conv_transpose(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """Each place of the kernel adds its product with all of x, `stride` apart; then the pads are cut off."""
    (batch, channels, *sizes), (_, width, *window) = shapes[0], shapes[1]
    groups, spatial, pads, strides = attrs["group"], len(out) - 2, attrs["pads"], attrs["strides"]
    own = channels // groups
    x = xs[0].reshape((*xs[0].shape[: xs[0].ndim - len(out)], batch, groups, own, 1, *sizes))
    w = xs[1].reshape((*xs[1].shape[: xs[1].ndim - len(out)], 1, groups, own, width, *window))
    full = tuple(n + pads[d] + pads[spatial + d] for d, n in enumerate(out[2:]))
    result = np.zeros((*lead(xs[:2], shapes[:2]), batch, groups, width, *full), dtype=np.uint64)
    for c in range(own):
        channel = np.take(x, c, axis=-2 - spatial)
        for place in np.ndindex(*window):
            weight: Array = w[(..., c, slice(None), *place)]
            reached: list[Any] = [...]
            for d, k in enumerate(place):
                start = k * attrs["dilations"][d]
                reached.append(slice(start, start + (sizes[d] - 1) * strides[d] + 1, strides[d]))
            result[tuple(reached)] += channel * per_last(weight, spatial) % _P
    result %= _P
    for d, n in enumerate(out[2:]):
        result = cut(result, d - spatial, pads[d], pads[d] + n, 1)
    return _biased(result.reshape(result.shape[: result.ndim - spatial - 3] + out), xs, spatial)


KERNELS: Mapping[str, Kernel] = {"Conv": _conv, "ConvTranspose": _conv_transpose}
