"""Convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from verify.algebra import Algebra, equal
from verify.semantics.common import Definition, inside

__all__ = ["DEFINITIONS"]


def _conv(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum_(c, k) x[n, group(o) * Cg + c, s*p + d*k - pad] * w[o, c, k] + b[o], x taken as 0 outside its bounds.

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


def _conv_transpose(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum_(c, p, k) x[n, group(o) * Cg + c, p] * w[group(o) * Cg + c, o - group(o) * Mg, k] + b[o], over the input
    positions p and the places k of the kernel with s*p + d*k - pad = output position (ConvTranspose-22).

    Cg = C / group input channels and Mg = w.shape[1] output channels a group; group(o) = o // Mg. `output_padding`
    bears on the shape only.
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


DEFINITIONS: Mapping[str, Definition] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
}
