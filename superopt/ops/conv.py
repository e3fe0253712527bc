"""Convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ops.algebra import Algebra, equal
from superopt.ops.definition import inside
from superopt.ops.entry import operator
from superopt.ops.typing import IllTyped, Need, floats, need_at_most, need_equal


def _conv_type(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, w = shapes[:2]
    spatial, group, pads = len(x) - 2, attrs["group"], attrs["pads"]
    if len(w) != len(x) or spatial < 1 or len(pads) != 2 * spatial or len(attrs["strides"]) != spatial:
        raise IllTyped("Conv's ranks do not fit")
    for positive in (group, *attrs["strides"], *attrs["dilations"]):
        need_at_most(need, 1, positive)
    need_equal(need, x[1], w[1] * group)
    need_equal(need, w[0], floor_div(w[0], group) * group)
    for pad in pads:
        need_at_most(need, 0, pad)  # ONNX knows negative pads in Pad only
    if len(shapes) > 2 and shapes[2] is not None:
        if len(shapes[2]) != 1:
            raise IllTyped("Conv's bias is not a vector")
        need_equal(need, shapes[2][0], w[0])
    result: list[Size] = [x[0], w[0]]
    for d in range(spatial):
        reach = (w[2 + d] - 1) * attrs["dilations"][d] + 1
        room = x[2 + d] + pads[d] + pads[spatial + d] - reach
        need_at_most(need, 0, room)
        result.append(floor_div(room, attrs["strides"][d]) + 1)
    return (tuple(result),)


@operator("Conv", 2, 3, "dilations group=1 pads strides", shape=_conv_type, dtype=floats)
def _conv(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum_(c, k) x[n, group(o) * Cg + c, s*p + d*k - pad] * w[o, c, k] + b[o], with x = 0 outside its bounds.

    Cg = w.shape[1] is the number of input channels a group; group(o) = o // (O / group).
    """
    x, w, *bias = xs
    n, o, *place = i
    group, channels = attrs["group"], w.shape[1]
    first = 0 if group == 1 else floor_div(o, floor_div(w.shape[0], group)) * channels

    def over(d: int, source: tuple[Size, ...], window: tuple[Size, ...], c: Size) -> Any:
        if d == len(place):
            conditions = [guard for j, size in zip(source, x.shape[2:], strict=True) for guard in inside(j, 0, size)]
            padded = g.piecewise([(conditions, lambda: x.at(n, first + c, *source))], g.constant(Fraction(0)))
            return g.multiply(padded, w.at(o, c, *window))

        def step(k: Size) -> Any:
            own = place[d] * attrs["strides"][d] + k * attrs["dilations"][d] - attrs["pads"][d]
            return over(d + 1, (*source, own), (*window, k), c)

        return g.summation(w.shape[2 + d], step)

    total = g.summation(channels, lambda c: over(0, (), (), c))
    return g.add(total, bias[0].at(o)) if bias and bias[0] is not None else total


def _conv_transpose_type(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, w = shapes[:2]
    spatial, group, pads = len(x) - 2, attrs["group"], attrs["pads"]
    if len(w) != len(x) or spatial < 1 or len(pads) != 2 * spatial:
        raise IllTyped("ConvTranspose's ranks do not fit")
    if any(len(attrs[name]) != spatial for name in ("dilations", "output_padding", "strides")):
        raise IllTyped("ConvTranspose's attributes do not fit its rank")
    for positive in (group, *attrs["strides"], *attrs["dilations"]):
        need_at_most(need, 1, positive)
    need_equal(need, x[1], w[0])
    need_equal(need, x[1], floor_div(x[1], group) * group)
    for pad in (*pads, *attrs["output_padding"]):
        need_at_most(need, 0, pad)
    for more, stride in zip(attrs["output_padding"], attrs["strides"], strict=True):
        need_at_most(need, more, stride - 1)  # ONNX: below the stride or the dilation; ONNX Runtime: below the stride
    channels = w[1] * group
    if len(shapes) > 2 and shapes[2] is not None:
        if len(shapes[2]) != 1:
            raise IllTyped("ConvTranspose's bias is not a vector")
        need_equal(need, shapes[2][0], channels)
    result: list[Size] = [x[0], channels]
    for d in range(spatial):
        reach = (w[2 + d] - 1) * attrs["dilations"][d] + 1
        full = (x[2 + d] - 1) * attrs["strides"][d] + reach + attrs["output_padding"][d]
        size = full - pads[d] - pads[spatial + d]
        need_at_most(need, 1, size)
        result.append(size)
    return (tuple(result),)


@operator(
    "ConvTranspose", 2, 3, "dilations group=1 output_padding pads strides", shape=_conv_transpose_type, dtype=floats
)
def _conv_transpose(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum_(c, p, k) x[n, group(o) * Cg + c, p] * w[group(o) * Cg + c, o - group(o) * Mg, k] + b[o], over the input
    positions p and the places k of the kernel with s*p + d*k - pad = output position (ConvTranspose-22).

    Cg = C / group input channels and Mg = w.shape[1] output channels a group; group(o) = o // Mg. `output_padding`
    changes the shape only.
    """
    x, w, *bias = xs
    n, o, *place = i
    group, outputs = attrs["group"], w.shape[1]
    own = 0 if group == 1 else floor_div(o, outputs)
    channels = x.shape[1] if group == 1 else floor_div(x.shape[1], group)

    def over(d: int, source: tuple[Size, ...], window: tuple[Size, ...], c: Size) -> Any:
        if d == len(place):
            return g.multiply(x.at(n, c, *source), w.at(c, o - own * outputs, *window))

        def step(p: Size, k: Size) -> Any:
            met = equal(p * attrs["strides"][d] + k * attrs["dilations"][d] - attrs["pads"][d], place[d])
            return g.where([met], lambda: over(d + 1, (*source, p), (*window, k), c))

        return g.summation(x.shape[2 + d], lambda p: g.summation(w.shape[2 + d], lambda k: step(p, k)))

    total = g.summation(channels, lambda c: over(0, (), (), own * channels + c))
    return g.add(total, bias[0].at(o)) if bias and bias[0] is not None else total
