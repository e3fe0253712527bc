"""Normalisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from verify.algebra import Algebra
from verify.semantics.common import Definition, broadcast, difference, divide, negative, number
from verify.semantics.reduce import average, sum_over

__all__ = ["DEFINITIONS"]


def _inverse_root(g: Algebra, square: Any, attrs: Mapping[str, Any]) -> Any:
    """1 / sqrt(square + epsilon)."""
    return g.apply("reciprocal", g.apply("sqrt", g.add(square, number(g, attrs["epsilon"]))))


def _batch_normalization(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """(x - mean[c]) * scale[c] / sqrt(var[c] + epsilon) + B[c]."""
    x, scale, offset, mean, var = xs
    c = i[1]
    spread = _inverse_root(g, var.at(c), attrs)
    centred = g.add(x.at(*i), negative(g, mean.at(c)))
    return g.add(g.multiply(g.multiply(centred, scale.at(c)), spread), offset.at(c))


def _standardised(
    g: Algebra, value: Any, scale: Any, sizes: Sizes, at: Callable[..., Any], attrs: Mapping[str, Any]
) -> Any:
    """(value - mean) * scale / sqrt(var + epsilon), with mean and variance of at(k) over all k below the sizes."""
    mean = average(g, sizes, at)

    def square(*k: Size) -> Any:
        centred = difference(g, at(*k), mean)
        return g.multiply(centred, centred)

    spread = _inverse_root(g, average(g, sizes, square), attrs)
    return g.multiply(g.multiply(difference(g, value, mean), scale), spread)


def _instance_normalization(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """(x - mean) * scale[c] / sqrt(var + epsilon) + B[c], over all axes but the first two (since 6)."""
    x, scale, offset = xs
    scaled = _standardised(g, x.at(*i), scale.at(i[1]), x.shape[2:], lambda *k: x.at(*i[:2], *k), attrs)
    return g.add(scaled, offset.at(i[1]))


def _group_normalization(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """(x - mean) * scale[c] / sqrt(var + epsilon) + bias[c], over the channels of c and its group (since 21)."""
    (x, scale, offset), c = xs, i[1]
    own = floor_div(x.shape[1], attrs["num_groups"])
    first = 0 if attrs["num_groups"] == 1 else floor_div(c, own) * own

    def at(channel: Size, *k: Size) -> Any:
        return x.at(i[0], first + channel, *k)

    scaled = _standardised(g, x.at(*i), scale.at(c), (own, *x.shape[2:]), at, attrs)
    return g.add(scaled, offset.at(c))


def _layer_normalization(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """(x - mean) * Scale / sqrt(var + epsilon) + B, over `axis` and all axes after it (since 17)."""
    x, scale, *offset = xs
    axis = attrs["axis"] % len(i)
    scaled = _standardised(g, x.at(*i), broadcast(scale, i), x.shape[axis:], lambda *k: x.at(*i[:axis], *k), attrs)
    return g.add(scaled, broadcast(offset[0], i)) if offset and offset[0] is not None else scaled


def _rms_normalization(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x * scale / sqrt(mean(x * x) + epsilon), over `axis` and all axes after it (since 23)."""
    x, scale = xs
    axis = attrs["axis"] % len(i)

    def square(*k: Size) -> Any:
        return g.multiply(x.at(*i[:axis], *k), x.at(*i[:axis], *k))

    spread = _inverse_root(g, average(g, x.shape[axis:], square), attrs)
    return g.multiply(g.multiply(x.at(*i), broadcast(scale, i)), spread)


def _along(x: Any, attrs: Mapping[str, Any], i: Sizes) -> tuple[Sizes, Callable[..., Any]]:
    """The size of the axis, and x at index i as a function of the index along that axis."""
    axis = attrs["axis"] % len(i)
    return (x.shape[axis],), lambda k: x.at(*i[:axis], k, *i[axis + 1 :])


def _lp_normalization(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x / sum |x_k| (p = 1), x / sqrt(sum x_k * x_k) (p = 2), along one axis (since 1).

    The page has 0 where the norm is 0.
    """
    sizes, at = _along(xs[0], attrs, i)
    if attrs["p"] == 1:
        norm = sum_over(g, sizes, lambda k: g.maximum([at(k), negative(g, at(k))]))
    else:
        norm = g.apply("sqrt", sum_over(g, sizes, lambda k: g.multiply(at(k), at(k))))
    return g.choose("==", norm, g.constant(Fraction(0)), divide(g, xs[0].at(*i), norm))


def _softmax(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """exp(x) / sum exp(x_k), along one axis (since 13)."""
    sizes, at = _along(xs[0], attrs, i)
    return divide(g, g.apply("exp", xs[0].at(*i)), sum_over(g, sizes, lambda k: g.apply("exp", at(k))))


def _log_softmax(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x - log(sum exp(x_k)), along one axis (since 13)."""
    sizes, at = _along(xs[0], attrs, i)
    return difference(g, xs[0].at(*i), g.apply("log", sum_over(g, sizes, lambda k: g.apply("exp", at(k)))))


DEFINITIONS: Mapping[str, Definition] = {
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _instance_normalization,
    "GroupNormalization": _group_normalization,
    "LayerNormalization": _layer_normalization,
    "RMSNormalization": _rms_normalization,
    "LpNormalization": _lp_normalization,
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
}
