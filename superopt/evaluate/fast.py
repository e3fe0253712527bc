"""Handwritten floating-point kernels, for operators whose definition is too slow, loses digits, or cannot express
infinities and -0.

A kernel gets the inputs (real ones in float64, others in their own type, None for an absent one) and the attributes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from superopt.evaluate.indices import Array, on_last_axes

__all__ = ["KERNELS", "Kernel", "sigmoid"]

Attrs: TypeAlias = Mapping[str, Any]
Kernel: TypeAlias = Callable[[Sequence[Any], Attrs], Array]


def _given(inputs: Sequence[Any], place: int) -> Any:
    """Return an optional input, None if it is absent."""
    return inputs[place] if len(inputs) > place else None


# Products: by NumPy's matrix product, because the definition would build an array of all products of factors.


def _gemm(inputs: Sequence[Any], attrs: Attrs) -> Array:
    a, b, c = inputs[0], inputs[1], _given(inputs, 2)
    a, b = (a.T if attrs["transA"] else a), (b.T if attrs["transB"] else b)
    product = attrs["alpha"] * (a @ b) if attrs["alpha"] != 1 else a @ b
    if c is not None:
        product = product + (attrs["beta"] * c if attrs["beta"] != 1 else c)
    return np.asarray(product)


def _conv(inputs: Sequence[Any], attrs: Attrs) -> Array:
    """Compute the cross-correlation by im2col: kernels as a matrix, times windows of x as columns, for each group."""
    x, w, bias = inputs[0], inputs[1], _given(inputs, 2)
    spatial, group, pads = x.ndim - 2, attrs["group"], attrs["pads"]
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:], strict=True)])
    reach = tuple((k - 1) * d + 1 for k, d in zip(w.shape[2:], attrs["dilations"], strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, x.ndim)))
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in attrs["strides"]))
    windows = windows[(*steps, *(slice(None, None, d) for d in attrs["dilations"]))]
    out_size = windows.shape[2 : 2 + spatial]
    # (group, O/group, C/group * k) against (N, group, C/group * k, out), from (N, C, out..., k...).
    summed, made = math.prod(w.shape[1:]), w.shape[0] // group
    columns = np.moveaxis(windows, range(2, 2 + spatial), range(2 + spatial, 2 + 2 * spatial))
    columns = columns.reshape(x.shape[0], group, summed, math.prod(out_size))
    result = (w.reshape(group, made, summed) @ columns).reshape(x.shape[0], w.shape[0], *out_size)
    return np.asarray(result if bias is None else result + bias.reshape(-1, *(1,) * spatial))


def _conv_transpose(inputs: Sequence[Any], attrs: Attrs) -> Array:
    """Add up, for each position of the kernel, its product with all of x, placed `stride` apart; cut off the pads."""
    x, w, bias = inputs[0], inputs[1], _given(inputs, 2)
    spatial, group, strides, pads = x.ndim - 2, attrs["group"], attrs["strides"], attrs["pads"]
    dilations, more = attrs["dilations"], attrs["output_padding"]
    axes = zip(x.shape[2:], strides, w.shape[2:], dilations, more, strict=True)
    size = [(n - 1) * s + (k - 1) * d + 1 + extra for n, s, k, d, extra in axes]
    x = x.reshape(x.shape[0], group, x.shape[1] // group, *x.shape[2:])
    w = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    result = np.zeros((x.shape[0], group, w.shape[2], *size), x.dtype)
    for place in itertools.product(*map(range, w.shape[3:])):
        starts = [k * d for k, d in zip(place, dilations, strict=True)]
        reached = [slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, x.shape[3:], strides, strict=True)]
        result[on_last_axes(*reached)] += np.einsum("ngc...,gcm->ngm...", x, w[on_last_axes(*place)])
    result = result.reshape(x.shape[0], group * w.shape[2], *size)
    kept = [slice(begin, n - end) for begin, n, end in zip(pads[:spatial], size, pads[spatial:], strict=True)]
    result = result[on_last_axes(*kept)]
    return np.asarray(result if bias is None else result + bias.reshape(-1, *(1,) * spatial))


# Recurrences: computed step by step. The definitions nest one bound variable for every step.


def _cumsum(inputs: Sequence[Any], attrs: Attrs) -> Array:
    order = slice(None, None, -1 if attrs["reverse"] else 1)
    x = np.moveaxis(inputs[0], attrs["axis"], 0)[order]
    total = np.cumsum(x, 0, dtype=x.dtype)
    if attrs["exclusive"]:
        total = np.concatenate([np.zeros_like(x[:1]), total[:-1]])
    return np.moveaxis(total[order], 0, attrs["axis"])


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), for x < 0 as exp(x) / (1 + exp(x)), which does not overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, small) / (1 + small))


def _lstm(read: Array, states: Sequence[Array], r: Array, b: Array, attrs: Attrs) -> list[Array]:
    """Return the states after a step of LSTM. With i, o, f, g the quarters of x W^T + Wb + h R^T + Rb:

    c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c)
    """
    h, c = states
    i, o, f, g = np.split(read + h @ r.T + b, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(c), c]


def _gru(read: Array, states: Sequence[Array], r: Array, b: Array, attrs: Attrs) -> list[Array]:
    """Return the state after a step of GRU. With xz, xr, xn the thirds of x W^T + Wb, and R, Rb split likewise:

    z = sigmoid(xz + h Rz^T + Rbz);  r = sigmoid(xr + h Rr^T + Rbr);  h = (1 - z) n + z h
    n = tanh(xn + (r h) Rn^T + Rbn), or if linear_before_reset is 1: n = tanh(xn + r (h Rn^T + Rbn))
    """
    (h,) = states
    (xz, xr, xn), (rz, rr, rn), (bz, br, bn) = (np.split(a, 3, axis=k) for a, k in ((read, -1), (r, 0), (b, 0)))
    z, reset = sigmoid(xz + h @ rz.T + bz), sigmoid(xr + h @ rr.T + br)
    kept = reset * (h @ rn.T + bn) if attrs["linear_before_reset"] else (reset * h) @ rn.T + bn
    return [(1 - z) * np.tanh(xn + kept) + z * h]


def _recurrent(step: Callable[..., list[Array]]) -> Kernel:
    """Return the kernel of a recurrent operator. `step` maps the states before a time step to those after it.

    The kernel returns the output that the attribute `index` selects.
    """

    def kernel(inputs: Sequence[Any], attrs: Attrs) -> Array:
        x, (w,), (r,), b, *initial = inputs
        read_bias, kept_bias = np.zeros((2, len(w))) if b is None else np.split(b[0], 2)
        states, found = [state[0] for state in initial], []
        for part in x:
            states = step(part @ w.T + read_bias, states, r, kept_bias, attrs)
            found.append(states[0])
        return states[attrs["index"] - 1][None] if attrs["index"] else np.stack(found)[:, None]

    return kernel


# Exponentials far from 1: by their definition exp(x - log(sum exp(x))), a rounding of x = 500 would be one of 500 u.


def _softmax(inputs: Sequence[Any], attrs: Attrs) -> Array:
    (x,), axis = inputs, attrs["axis"]
    powers = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


# Attributes that may be infinite or -0. The definitions only have fractions.


def _pad(inputs: Sequence[Any], attrs: Attrs) -> Array:
    (x,), pads = inputs, attrs["pads"]
    axes = list(zip(pads[: x.ndim], x.shape, pads[x.ndim :], strict=True))
    result = np.full([begin + n + end for begin, n, end in axes], attrs["value"], x.dtype)
    kept = [(max(begin, 0), min(begin + n + min(end, 0), begin + n + end)) for begin, n, end in axes]
    if all(low < high for low, high in kept):  # a crop may leave nothing of x
        places = tuple(slice(low, high) for low, high in kept)
        result[places] = x[tuple(slice(low - b, high - b) for (low, high), (b, _, _) in zip(kept, axes, strict=True))]
    return result


# Indices that are data: the definition would compute the place of each element.


def _lookup(inputs: Sequence[Any], attrs: Attrs) -> Array:
    """Return the elements at indices. Raises IndexError for one out of range."""
    x, indices = inputs
    return np.asarray(np.take(x, indices, attrs["axis"]))


KERNELS: Mapping[str, Kernel] = {
    "MatMul": lambda inputs, attrs: np.asarray(inputs[0] @ inputs[1]),
    "Gemm": _gemm,
    "Einsum": lambda inputs, attrs: np.asarray(np.einsum(attrs["equation"], *inputs, optimize=True)),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "CumSum": _cumsum,
    "GRU": _recurrent(_gru),
    "LSTM": _recurrent(_lstm),
    "Softmax": _softmax,
    "Pad": _pad,
    "Lookup": _lookup,
    "Constant": lambda inputs, attrs: np.array(attrs["value_floats"], np.float64).reshape(attrs["shape"]),
    "ConstantOfShape": lambda inputs, attrs: np.full(attrs["shape"], attrs["value"], np.float64),
}
