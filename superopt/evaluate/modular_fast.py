"""Handwritten kernels modulo P: exceptions from the definitions, and products for which the definition is too slow.

The exceptions. Each one preserves equations that the generator should find:
    HardSigmoid   Clip to 0 ... 1 maps almost any sample to 0 or 1, so all graphs would look alike. Another increasing
                  function is used in place of Clip
    Elu, Celu     exp(x) - 1 is replaced by a function with negative values, so that Relu(Elu(x)) = Relu(x) holds
    Gelu          its factors, such as the root of 1/2, are read as residues of their values
    LogSoftmax    is computed as the logarithm of Softmax: exponents are equal modulo P - 1, not modulo P
    Lookup        its indices are read as signed numbers, and taken modulo the size of the axis

A kernel gets stacked operands (None: absent), their shapes, the attributes and the shape of the output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from superopt.evaluate.indices import on_last_axes
from superopt.evaluate.residue_functions import below_zero, erf, exp, hard, log, sigmoid, tanh
from superopt.evaluate.residues import (
    HALF,
    Array,
    P,
    Products,
    Shape,
    added,
    inverse,
    negative,
    rank,
    reduced,
    residue,
    scaled,
)

__all__ = ["EXCEPTIONS", "PRODUCTS", "Attrs", "Kernel"]

Attrs: TypeAlias = Mapping[str, Any]
Kernel: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Attrs, Shape], Array]


def _times(x: Array, y: Array) -> Array:
    result: Array = reduced(x * y)
    return result


def _function(function: Callable[[Array, Attrs], Array]) -> Kernel:
    return lambda xs, shapes, attrs, out: function(xs[0], attrs)


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return hard(added(scaled(x, residue(alpha)), np.uint64(residue(beta))))


def _elu(x: Array, alpha: int, inner: int = 1) -> Array:
    """Return x for x >= 0, alpha * curve(inner * x) for x < 0."""
    return np.where(x <= HALF, x, scaled(below_zero(scaled(x, inner), "Elu"), alpha))


def _celu(x: Array, attrs: Attrs) -> Array:
    """Return x for x >= 0, alpha * curve(x / alpha) for x < 0. This is ONNX's formula for alpha > 0."""
    alpha = residue(attrs["alpha"])
    return _elu(x, alpha, pow(alpha, P - 2, P))


def _gelu(x: Array, attrs: Attrs) -> Array:
    """Return x * (1 + erf(x / sqrt(2))) / 2, or x * (1 + tanh(a * (x + b * x^3))) / 2 with the definition's numbers."""
    if attrs["approximate"] == "tanh":
        cubic = scaled(_times(_times(x, x), x), residue(0.044714998453855515))
        curve = tanh(scaled(added(x, cubic), residue(0.7978845834732056)))
    else:
        curve = erf(scaled(x, residue(math.sqrt(0.5))))
    return _times(x, scaled(added(curve, np.uint64(1)), residue(0.5)))


def _log_softmax(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    powers = exp(xs[0])
    total = powers.sum(axis=attrs["axis"] % len(out) - len(out), keepdims=True, dtype=np.uint64)
    return log(_times(powers, inverse(reduced(total))))


# Products.


def product(a: Array, b: Array) -> Array:
    """Return the matrix product over the last two axes; the axes before them are broadcast."""
    if not a.shape[-1]:
        stacked = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.zeros((*stacked, a.shape[-2], b.shape[-1]), dtype=np.uint64)
    total = a[..., :, :1] * b[..., :1, :] % P
    for k in range(1, a.shape[-1]):
        total += _times(a[..., :, k : k + 1], b[..., k : k + 1, :])
    result: Array = reduced(total)
    return result


def _lifted(x: Array, shape: Shape, rank: int) -> Array:
    """Return `x` with its tensor axes padded in front by axes of size 1, to `rank` of them."""
    stacked = x.shape[: x.ndim - len(shape)]
    return x.reshape(stacked + (1,) * (rank - len(shape)) + shape)


def _matmul(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    (a, b), (left, right) = xs, shapes
    if len(left) == 1:
        a, left = a[..., None, :], (1, *left)
    if len(right) == 1:
        b, right = b[..., :, None], (*right, 1)
    rank = max(len(left), len(right))
    found = product(_lifted(a, left, rank), _lifted(b, right, rank))
    return found.reshape(found.shape[: found.ndim - rank] + out)


def _place(x: Array, d: int, spatial: int, place: Any) -> Array:
    """Return `x` at a position or range on axis `d` of its last `spatial` axes."""
    result: Array = x[(..., place, *[slice(None)] * (spatial - 1 - d))]
    return result


def _stacked_shape(xs: Sequence[Array], shapes: Sequence[Shape]) -> Shape:
    """Return the shape of the stacked axes of all operands after broadcasting."""
    return np.broadcast_shapes(*(x.shape[: x.ndim - len(s)] for x, s in zip(xs, shapes, strict=True)))


def _conv(xs: Sequence[Any], shapes: Sequence[Any], attrs: Attrs, out: Shape) -> Array:
    """Add up the products at each position of the kernel, for all windows at once."""
    (batch, channels, *sizes), (features, width, *window) = shapes[0], shapes[1]
    groups, spatial, pads = attrs["group"], len(out) - 2, tuple(attrs["pads"])
    stacked = xs[0].shape[: xs[0].ndim - len(out)]
    full = tuple(begin + n + end for begin, n, end in zip(pads[:spatial], sizes, pads[spatial:], strict=True))
    x = np.zeros((*stacked, batch, groups, 1, width, *full), dtype=np.uint64)
    inner = tuple(slice(begin, begin + n) for begin, n in zip(pads[:spatial], sizes, strict=True))
    x[on_last_axes(*inner)] = xs[0].reshape((*stacked, batch, groups, 1, width, *sizes))
    assert channels == groups * width
    w = xs[1].reshape((*xs[1].shape[: xs[1].ndim - len(shapes[1])], 1, groups, features // groups, width, *window))
    result = np.zeros(
        (*_stacked_shape(xs[:2], shapes[:2]), batch, groups, features // groups, *out[2:]), dtype=np.uint64
    )
    products = Products(result.shape)
    for c in range(width):
        channel = np.take(x, c, axis=-1 - spatial)
        for place in np.ndindex(*window):
            part: Array = channel
            for d, (k, step) in enumerate(zip(place, attrs["strides"], strict=True)):
                start = k * attrs["dilations"][d]
                part = _place(part, d, spatial, slice(start, start + (out[2 + d] - 1) * step + 1, step))
            weight: Array = w[(..., c, *place)]
            products.add_to(result, part, weight.reshape(weight.shape + (1,) * spatial))
    result = reduced(result)
    return _biased(result.reshape(result.shape[: result.ndim - spatial - 3] + out), xs, spatial)


def _conv_transpose(xs: Sequence[Any], shapes: Sequence[Any], attrs: Attrs, out: Shape) -> Array:
    """Add up, for each position of the kernel, its product with all of x, placed `stride` apart; cut off the pads."""
    (batch, channels, *sizes), (_, width, *window) = shapes[0], shapes[1]
    groups, spatial, pads, strides = attrs["group"], len(out) - 2, attrs["pads"], attrs["strides"]
    own = channels // groups
    x = xs[0].reshape((*xs[0].shape[: xs[0].ndim - len(out)], batch, groups, own, 1, *sizes))
    w = xs[1].reshape((*xs[1].shape[: xs[1].ndim - len(out)], 1, groups, own, width, *window))
    full = tuple(n + pads[d] + pads[spatial + d] for d, n in enumerate(out[2:]))
    lead = (*_stacked_shape(xs[:2], shapes[:2]), batch, groups, width)
    result, products = np.zeros((*lead, *full), dtype=np.uint64), Products((*lead, *sizes))
    for c in range(own):
        channel = np.take(x, c, axis=-2 - spatial)
        for place in np.ndindex(*window):
            weight: Array = w[(..., c, slice(None), *place)]
            part = result
            for d, k in enumerate(place):
                start = k * attrs["dilations"][d]
                part = _place(part, d, spatial, slice(start, start + (sizes[d] - 1) * strides[d] + 1, strides[d]))
            products.add_to(part, channel, weight.reshape(weight.shape + (1,) * spatial))
    result = reduced(result)
    for d, n in enumerate(out[2:]):
        result = _place(result, d, spatial, slice(pads[d], pads[d] + n))
    return _biased(result.reshape(result.shape[: result.ndim - spatial - 3] + out), xs, spatial)


def _biased(x: Array, xs: Sequence[Any], spatial: int) -> Array:
    """Return `x` plus the bias of each channel, if there is one."""
    if len(xs) < 3 or xs[2] is None:
        return x
    bias = xs[2].reshape(*xs[2].shape[:-1], 1, xs[2].shape[-1], *(1,) * spatial)
    result: Array = added(x, bias)
    return result


# Recurrent layers, computed step by step. The definitions nest one bound variable for every step.


def _lstm(read: Array, states: Sequence[Array], r: Array, b: Any, attrs: Attrs) -> list[Array]:
    h, c = states
    i, o, f, new = np.split(reduced(read + product(h, r.swapaxes(-1, -2)) + b), 4, axis=-1)
    c = added(_times(sigmoid(f), c), _times(sigmoid(i), tanh(new)))
    return [_times(sigmoid(o), tanh(c)), c]


def _gru(read: Array, states: Sequence[Array], r: Array, b: Any, attrs: Attrs) -> list[Array]:
    (h,) = states
    (xz, xr, xn), (hz, hr, hn) = (np.split(a, 3, axis=-1) for a in (read, reduced(product(h, r.swapaxes(-1, -2)) + b)))
    z, reset = sigmoid(added(xz, hz)), sigmoid(added(xr, hr))
    if attrs["linear_before_reset"]:
        kept = _times(reset, hn)
    else:
        kept = np.split(reduced(product(_times(reset, h), r.swapaxes(-1, -2)) + b), 3, axis=-1)[2]
    new = tanh(added(xn, kept))
    return [added(new, _times(z, added(h, negative(new))))]


def _recurrent(step: Callable[..., list[Array]]) -> Kernel:
    """Return the kernel of a recurrent operator. `step` maps the states before a time step to those after it.

    The kernel returns the output that the attribute `index` selects.
    """

    def kernel(xs: Sequence[Any], shapes: Sequence[Any], attrs: Attrs, out: Shape) -> Array:
        x, w, r, b, *initial = xs
        w, r, *states = (a[..., 0, :, :] for a in (w, r, *initial))
        none = np.zeros(1, np.uint64)
        read_bias, kept_bias = (none, none) if b is None else np.split(b, 2, axis=-1)  # [.., 1, gates hidden]
        found = []
        for t in range(shapes[0][0]):
            read = reduced(product(x[..., t, :, :], w.swapaxes(-1, -2)) + read_bias)
            states = step(read, states, r, kept_bias, attrs)
            found.append(states[0])
        if attrs["index"]:
            last: Array = states[attrs["index"] - 1]
            return last[..., None, :, :]
        return np.stack(found, axis=-3)[..., None, :, :]

    return kernel


def _lookup(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """Return elements at indices, each stacked graph at its own. Indices are taken modulo the size."""
    (x, indices), (shape, places) = xs, shapes
    axis = attrs["axis"] % len(shape)
    lead = _stacked_shape(xs, shapes)
    others = shape[:axis] + shape[axis + 1 :]
    rows = np.moveaxis(np.broadcast_to(x, lead + shape), len(lead) + axis, len(lead))
    rows = rows.reshape(*lead, shape[axis], math.prod(others))
    numbers = (rank(indices).astype(np.int64) - HALF) % shape[axis]
    numbers = np.broadcast_to(numbers, lead + places).reshape(*lead, math.prod(places), 1)
    found = np.take_along_axis(rows, numbers, axis=-2).reshape(lead + places + others)
    first = range(len(lead), len(lead) + len(places))
    return np.moveaxis(found, first, [k + axis for k in first])


EXCEPTIONS: Mapping[str, Kernel] = {
    "HardSigmoid": _function(lambda x, attrs: _hard_sigmoid(x, attrs["alpha"], attrs["beta"])),
    "Elu": _function(lambda x, attrs: _elu(x, residue(attrs["alpha"]))),
    "Celu": _function(_celu),
    "Gelu": _function(_gelu),
    "LogSoftmax": _log_softmax,
    "Lookup": _lookup,
}
PRODUCTS: Mapping[str, Kernel] = {
    "MatMul": _matmul,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GRU": _recurrent(_gru),
    "LSTM": _recurrent(_lstm),
}
