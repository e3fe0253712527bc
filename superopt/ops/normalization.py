"""Normalisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ops.algebra import Algebra
from superopt.ops.definition import broadcast, difference, divide, negative, number
from superopt.ops.reduce import average, sum_over
from superopt.ops.typing import IllTyped, Need, axis_in, floats, need_at_most, need_equal, op

__all__ = ["OPERATORS"]


def _by_channel(shapes: Sequence[Sizes], least: int, need: Need) -> tuple[Sizes, ...]:
    x, *params = shapes
    if len(x) < least:
        raise IllTyped("a normalisation by channel needs a channel axis, and axes to work on")
    for shape in params:
        if len(shape) != 1:
            raise IllTyped("the parameters of a normalisation by channel are vectors")
        need_equal(need, shape[0], x[1])
    return (x,)


def _batch_normalization_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    return _by_channel(shapes, 2, need)


def _instance_normalization_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    return _by_channel(shapes, 3, need)


def _group_normalization_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    result, groups = _by_channel(shapes, 3, need), attrs["num_groups"]
    need_at_most(need, 1, groups)
    need_equal(need, shapes[0][1], floor_div(shapes[0][1], groups) * groups)
    return result


def _from_axis(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """Scale and bias broadcast to x, never x to them."""
    x, *params = shapes
    axis_in(attrs["axis"], len(x))
    for shape in params:
        if shape is None:
            continue
        if len(shape) > len(x):
            raise IllTyped("the scale has more axes than what it scales")
        for size, full in zip(reversed(shape), reversed(x), strict=False):
            if size != 1:
                need_equal(need, size, full)
    return (x,)


def _along_axis(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    axis_in(attrs["axis"], len(shapes[0]))
    return (shapes[0],)


def _lp_normalization_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["p"] not in (1, 2):
        raise IllTyped("LpNormalization knows p = 1 and p = 2")
    return _along_axis(shapes, attrs, need)


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


OPERATORS = (
    op(
        "BatchNormalization",
        5,
        5,
        "epsilon=9.999999747378752e-06",
        shape=_batch_normalization_type,
        dtype=floats,
        meaning=_batch_normalization,
    ),
    op(
        "InstanceNormalization",
        3,
        3,
        "epsilon=9.999999747378752e-06",
        shape=_instance_normalization_type,
        dtype=floats,
        meaning=_instance_normalization,
    ),
    op(
        "GroupNormalization",
        3,
        3,
        "epsilon=9.999999747378752e-06 num_groups",
        shape=_group_normalization_type,
        dtype=floats,
        meaning=_group_normalization,
    ),
    op(
        "LayerNormalization",
        2,
        3,
        "axis=-1 epsilon=9.999999747378752e-06",
        shape=_from_axis,
        dtype=floats,
        meaning=_layer_normalization,
    ),
    op(
        "RMSNormalization",
        2,
        2,
        "axis=-1 epsilon=9.999999747378752e-06",
        shape=_from_axis,
        dtype=floats,
        meaning=_rms_normalization,
    ),
    op("LpNormalization", 1, 1, "axis=-1 p=2", shape=_lp_normalization_type, dtype=floats, meaning=_lp_normalization),
    op("Softmax", 1, 1, "axis=-1", shape=_along_axis, dtype=floats, meaning=_softmax),
    op("LogSoftmax", 1, 1, "axis=-1", shape=_along_axis, dtype=floats, meaning=_log_softmax),
)
