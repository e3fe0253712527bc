"""Normalization operators and softmax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ops.algebra import Algebra
from superopt.ops.definition import divide, inside, number
from superopt.ops.entry import composite, operator
from superopt.ops.typing import IllTyped, Need, axis_in, floats, need_at_most, need_equal

_EPSILON = "epsilon=9.999999747378752e-06"  # 1e-5 as a float32 number


def _by_channel(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need, least: int = 3) -> tuple[Sizes, ...]:
    x, *params = shapes
    if len(x) < least:
        raise IllTyped("a normalisation by channel needs a channel axis, and axes to work on")
    for shape in params:
        if len(shape) != 1:
            raise IllTyped("the parameters of a normalisation by channel are vectors")
        need_equal(need, shape[0], x[1])
    return (x,)


def _channel_axis(vector: str) -> str:
    """Return the term for a vector with one entry for each channel, placed along axis 1 of x."""
    return f"Unsqueeze[axes=range(1, x.rank - 1)]({vector})"


composite(
    "BatchNormalization", 5, 5, _EPSILON,
    "BatchNormalization(x, scale, bias, mean, var) = Add(Mul(Mul(Sub(x, m), s), Reciprocal(Sqrt(Add(v, epsilon)))), b)"
    f" where m = {_channel_axis('mean')}, v = {_channel_axis('var')},"
    f" s = {_channel_axis('scale')}, b = {_channel_axis('bias')}",
    shape=partial(_by_channel, least=2), dtype=floats,
)  # fmt: skip

composite(
    "InstanceNormalization", 3, 3, _EPSILON,
    "InstanceNormalization(x, scale, bias) = LayerNormalization[axis=2 - x.rank, epsilon=epsilon](x, s, b)"
    f" where s = {_channel_axis('scale')}, b = {_channel_axis('bias')}",
    shape=_by_channel, dtype=floats,
)  # fmt: skip


def _group_normalization(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    result, groups = _by_channel(shapes, attrs, need), attrs["num_groups"]
    need_at_most(need, 1, groups)
    need_equal(need, shapes[0][1], floor_div(shapes[0][1], groups) * groups)
    return result


composite(
    "GroupNormalization", 3, 3, f"{_EPSILON} num_groups",
    "GroupNormalization(x, scale, bias) = Add(Mul(Reshape[shape=x.shape](y), s), b)"
    " where y = Div(c, Sqrt(Add(ReduceMean[axes=range(2, x.rank + 1)](Mul(c, c)), epsilon))),"
    " c = Sub(g, ReduceMean[axes=range(2, x.rank + 1)](g)),"
    " g = Reshape[shape=[0, num_groups, x.shape[1] // num_groups, x.shape[2:]]](x),"
    f" s = {_channel_axis('scale')}, b = {_channel_axis('bias')}",
    shape=_group_normalization, dtype=floats,
)  # fmt: skip


def _lrn_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    # ONNX Runtime takes images and windows of an odd size only.
    if len(shapes[0]) != 4 or not isinstance(attrs["size"], int) or attrs["size"] < 1 or attrs["size"] % 2 == 0:
        raise IllTyped("LRN needs an image, and a window of an odd size")
    return (shapes[0],)


@operator(
    "LRN", 1, 1, "alpha=9.999999747378752e-05 beta=0.75 bias=1.0 size", shape=_lrn_type, dtype=floats
)  # fmt: skip
def _lrn(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x / (bias + alpha / size * s)^beta, where s is the sum of the squares of the `size` channels around. LRN-13."""
    (x,), size, first = xs, attrs["size"], i[1] - (attrs["size"] - 1) // 2

    def square(channel: Size) -> Any:
        own = x.at(i[0], channel, *i[2:])
        return g.multiply(own, own)

    def channel(k: Size) -> Any:
        return g.where(inside(first + k, 0, shape[1]), lambda: square(first + k))

    weighted = g.multiply(divide(g, number(g, attrs["alpha"]), g.size(size)), g.summation(size, channel))
    power = g.apply("power", g.add(number(g, attrs["bias"]), weighted), number(g, attrs["beta"]))
    return divide(g, x.at(*i), power)


def _from_axis(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """The shape rule: scale and bias broadcast to x, never x to them."""
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


composite(
    "LayerNormalization", 2, 3, f"axis=-1 {_EPSILON}",
    "LayerNormalization(x, scale) = RMSNormalization[axis=axis, epsilon=epsilon](c, scale)"
    " where c = Sub(x, ReduceMean[axes=range(axis, 0)](x))",
    "LayerNormalization(x, scale, bias) = Add(LayerNormalization[axis=axis, epsilon=epsilon](x, scale), bias)",
    shape=_from_axis, dtype=floats,
)  # fmt: skip

composite(
    "RMSNormalization", 2, 2, f"axis=-1 {_EPSILON}",
    "RMSNormalization(x, scale) = "
    "Div(Mul(x, scale), Sqrt(Add(ReduceMean[axes=range(axis, 0)](Mul(x, x)), epsilon)))",
    shape=_from_axis, dtype=floats,
)  # fmt: skip


def _over_axes(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    for axis in attrs["axes"]:
        need_at_most(need, 1, x[axis_in(axis, len(x))])
    return (x,)


composite(
    "MeanVarianceNormalization", 1, 1, "axes",
    "MeanVarianceNormalization(x) = Div(Sub(x, m), Add(Sqrt(Sub(ReduceMean[axes=axes](Mul(x, x)), Mul(m, m))), 1e-9))"
    " where m = ReduceMean[axes=axes](x)",
    shape=_over_axes, dtype=floats,
)  # fmt: skip


def _along_axis(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    axis_in(attrs["axis"], len(shapes[0]))
    return (shapes[0],)


def _lp_normalization(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["p"] not in (1, 2):
        raise IllTyped("LpNormalization knows p = 1 and p = 2")
    return _along_axis(shapes, attrs, need)


# The operator's page defines the result as 0 if the norm is 0.
composite(
    "LpNormalization", 1, 1, "axis=-1 p=2",
    "LpNormalization[p=1](x) = Where(Equal(n, 0), 0, Div(x, n)) where n = ReduceL1[axes=[axis]](x)",
    "LpNormalization[p=2](x) = Where(Equal(n, 0), 0, Div(x, n)) where n = ReduceL2[axes=[axis]](x)",
    shape=_lp_normalization, dtype=floats,
)  # fmt: skip

composite(
    "Softmax", 1, 1, "axis=-1",
    "Softmax(x) = Div(Exp(x), ReduceSum[axes=[axis]](Exp(x)))",
    shape=_along_axis, dtype=floats,
)  # fmt: skip

composite(
    "LogSoftmax", 1, 1, "axis=-1",
    "LogSoftmax(x) = Sub(x, ReduceLogSumExp[axes=[axis]](x))",
    shape=_along_axis, dtype=floats,
)  # fmt: skip
