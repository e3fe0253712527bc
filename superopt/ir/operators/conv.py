"""Convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ir.operators.spec import IllTyped, Need, floats, need_at_most, need_equal, op

__all__ = ["SPECS"]


def _conv(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, w = shapes[:2]
    spatial, group, pads = len(x) - 2, attrs["group"], attrs["pads"]
    if len(w) != len(x) or spatial < 1 or len(pads) != 2 * spatial or len(attrs["strides"]) != spatial:
        raise IllTyped("Conv's ranks do not fit")
    need_equal(need, x[1], w[1] * group)
    need_equal(need, w[0], floor_div(w[0], group) * group)
    for positive in (group, *attrs["strides"], *attrs["dilations"]):
        need_at_most(need, 1, positive)
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


def _conv_transpose(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
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
        need_at_most(need, more, stride - 1)  # ONNX says "stride/dilation"; ONNX Runtime refuses the latter
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


SPECS = (
    op("Conv", 2, 3, "dilations group=1 pads strides", shape=_conv, dtype=floats),
    op("ConvTranspose", 2, 3, "dilations group=1 output_padding pads strides", shape=_conv_transpose, dtype=floats),
)
