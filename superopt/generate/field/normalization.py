"""Normalisation by its formulas, with 1/sqrt(v + epsilon) the inverse of the field's root of v + epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from superopt.generate.field.arithmetic import (
    Array,
    Attrs,
    Kernel,
    P,
    Shape,
    inverse,
    lift,
    negative,
    per_last,
    place_of,
    residue,
)
from superopt.generate.field.functions import exp, log, sqrt
from superopt.generate.field.reduce import absolute, mean, total

__all__ = ["KERNELS", "softmax"]

_P = np.uint64(P)


def _inverse_root(square: Array, attrs: Attrs) -> Array:
    """1 / sqrt(square + epsilon)."""
    return inverse(sqrt((square + np.uint64(residue(attrs["epsilon"]))) % _P))


def _affine(x: Array, scale: Array, offset: Array) -> Array:
    result: Array = (x * scale % _P + offset) % _P
    return result


def _channel(x: Array, rank: int) -> Array:
    """A number for each channel (the second axis) of tensors of this rank."""
    return per_last(x[..., None, :], rank - 2)


def _standardised(x: Array, attrs: Attrs, axes: Shape) -> Array:
    """(x - mean) / sqrt(variance + epsilon)."""
    centred = (x + negative(mean(x, axes))) % _P
    result: Array = centred * _inverse_root(mean(centred * centred % _P, axes), attrs) % _P
    return result


def _batch(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """(x - mean[c]) * (scale[c] / sqrt(var[c] + epsilon)) + B[c]."""
    scale, offset, centre, variance = xs[1:]
    factor = scale * _inverse_root(variance, attrs) % _P
    centred = (xs[0] + _channel(negative(centre), len(out))) % _P
    return _affine(centred, _channel(factor, len(out)), _channel(offset, len(out)))


def _instance(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    rank = len(out)
    x = _standardised(xs[0], attrs, tuple(range(2 - rank, 0)))
    return _affine(x, _channel(xs[1], rank), _channel(xs[2], rank))


def _group(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    rank, groups = len(out), attrs["num_groups"]
    stacked = xs[0].shape[: xs[0].ndim - rank]
    x = xs[0].reshape((*stacked, out[0], groups, math.prod(out[1:]) // groups))
    x = _standardised(x, attrs, (-1,)).reshape(stacked + out)
    return _affine(x, _channel(xs[1], rank), _channel(xs[2], rank))


def _layer(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """Over `axis` and all axes after it."""
    x = _standardised(xs[0], attrs, tuple(range(place_of(attrs["axis"], len(out)), 0)))
    x = x * lift(xs[1], shapes[1], len(out)) % _P
    return (x + lift(xs[2], shapes[2], len(out))) % _P if len(xs) > 2 else x


def _rms(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """x * scale / sqrt(mean(x * x) + epsilon), over `axis` and all axes after it."""
    x = xs[0]
    square = mean(x * x % _P, tuple(range(place_of(attrs["axis"], len(out)), 0)))
    result: Array = x * _inverse_root(square, attrs) % _P * lift(xs[1], shapes[1], len(out)) % _P
    return result


def _lp(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """x / sum |x| (p = 1) or x / sqrt(sum x * x) (p = 2); 0 where the norm is 0."""
    x, axes = xs[0], (place_of(attrs["axis"], len(out)),)
    norm = total(absolute(x), axes) if attrs["p"] == 1 else sqrt(total(x * x % _P, axes))
    result: Array = x * inverse(norm) % _P
    return result


def softmax(x: Array, axis: int = -1) -> Array:
    """exp(x) / sum exp(x) along an axis that counts from the end."""
    powers = exp(x)
    result: Array = powers * inverse(total(powers, (axis,))) % _P
    return result


def _softmax(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    return softmax(xs[0], place_of(attrs["axis"], len(out)))


KERNELS: Mapping[str, Kernel] = {
    "BatchNormalization": _batch,
    "InstanceNormalization": _instance,
    "GroupNormalization": _group,
    "LayerNormalization": _layer,
    "RMSNormalization": _rms,
    "LpNormalization": _lp,
    "Softmax": _softmax,
    "LogSoftmax": lambda xs, shapes, attrs, out: log(_softmax(xs, shapes, attrs, out)),
}
