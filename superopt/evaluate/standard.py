"""The operators that models are mostly made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

__all__ = ["COMPUTE", "Array", "Attrs", "Compute"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Attrs: TypeAlias = Mapping[str, Any]
# Inputs and attributes to outputs; real inputs are float64.
Compute: TypeAlias = Callable[[Sequence[Array], Attrs], list[Array]]


def _gemm(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    a, b = inputs[:2]
    a, b = (a.T if attrs["transA"] else a), (b.T if attrs["transB"] else b)
    product = attrs["alpha"] * (a @ b) if attrs["alpha"] != 1 else a @ b
    if len(inputs) > 2:
        product = product + (attrs["beta"] * inputs[2] if attrs["beta"] != 1 else inputs[2])
    return [product]


def _split(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    return np.split(inputs[0], np.cumsum(attrs["split"])[:-1], axis=attrs["axis"])


def _slice(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    index = [slice(None)] * inputs[0].ndim
    for axis, start, end, step in zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True):
        index[axis] = slice(start, None if end < 0 else end, step)  # -1 is before the first element, not the last one
    return [inputs[0][tuple(index)]]


def _pad(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (x,), pads = inputs, attrs["pads"]
    axes = list(zip(pads[: x.ndim], x.shape, pads[x.ndim :], strict=True))
    result = np.full([begin + n + end for begin, n, end in axes], attrs["value"], x.dtype)
    kept = [(max(begin, 0), min(begin + n + min(end, 0), begin + n + end)) for begin, n, end in axes]
    if all(low < high for low, high in kept):  # a crop may leave nothing of x
        places = tuple(slice(low, high) for low, high in kept)
        result[places] = x[tuple(slice(low - b, high - b) for (low, high), (b, _, _) in zip(kept, axes, strict=True))]
    return [result]


def _conv(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """Cross-correlation by `im2col`: every window of x as a row, times the kernels as a matrix, group by group."""
    x, w = inputs[:2]
    spatial, group = x.ndim - 2, attrs["group"]
    (x,) = _pad([x], {"pads": (0, 0, *attrs["pads"][:spatial], 0, 0, *attrs["pads"][spatial:]), "value": 0})
    reach = tuple((k - 1) * d + 1 for k, d in zip(w.shape[2:], attrs["dilations"], strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, x.ndim)))
    steps = (slice(None), slice(None), *(slice(None, None, s) for s in attrs["strides"]))
    windows = windows[(*steps, *(slice(None, None, d) for d in attrs["dilations"]))]
    out_size = windows.shape[2 : 2 + spatial]
    # (N, C, out..., k...) to (group, N*out, C/group * k), against (group, O/group, C/group * k).
    windows = np.moveaxis(windows, 1, 1 + spatial).reshape(x.shape[0], *out_size, group, -1)
    rows = np.moveaxis(windows, -2, 0).reshape(group, x.shape[0] * int(np.prod(out_size)), -1)
    kernels = w.reshape(group, w.shape[0] // group, int(np.prod(w.shape[1:])))
    result = rows @ kernels.swapaxes(1, 2)
    result = result.reshape(group, x.shape[0], *out_size, -1)
    result = np.moveaxis(result, (0, -1), (1, 2)).reshape(x.shape[0], w.shape[0], *out_size)
    return [result + inputs[2].reshape(-1, *(1,) * spatial) if len(inputs) > 2 else result]


def _batch_normalization(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    x, *params = inputs
    scale, bias, mean, variance = (p.reshape(-1, *(1,) * (x.ndim - 2)) for p in params)
    return [(x - mean) * (scale / np.sqrt(variance + attrs["epsilon"])) + bias]


def _dirac(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    kernel = np.zeros(attrs["shape"])
    outputs = attrs["shape"][0]
    centre = tuple((k - 1) // 2 for k in attrs["shape"][2:])
    for o in range(outputs):
        kernel[(o, o % (outputs // attrs["group"]), *centre)] = 1.0
    return [kernel]


def _sum(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    total = inputs[0]
    for array in inputs[1:]:
        total = total + array
    return [total]


COMPUTE: Mapping[str, Compute] = {
    "Zeros": lambda inputs, attrs: [np.zeros(attrs["shape"])],
    "Ones": lambda inputs, attrs: [np.ones(attrs["shape"])],
    "Eye": lambda inputs, attrs: [np.eye(attrs["n"])],
    "Dirac": _dirac,
    "MatMul": lambda inputs, attrs: [np.matmul(inputs[0], inputs[1])],
    "Gemm": _gemm,
    "Add": lambda inputs, attrs: [inputs[0] + inputs[1]],
    "Sub": lambda inputs, attrs: [inputs[0] - inputs[1]],
    "Mul": lambda inputs, attrs: [inputs[0] * inputs[1]],
    "Sum": _sum,
    "Neg": lambda inputs, attrs: [-inputs[0]],
    "Identity": lambda inputs, attrs: [inputs[0]],
    "Relu": lambda inputs, attrs: [np.maximum(inputs[0], 0)],
    "Sigmoid": lambda inputs, attrs: [np.exp(-np.logaddexp(0, -inputs[0]))],
    "Tanh": lambda inputs, attrs: [np.tanh(inputs[0])],
    "Concat": lambda inputs, attrs: [np.concatenate(inputs, axis=attrs["axis"])],
    "Split": _split,
    "Slice": _slice,
    "Transpose": lambda inputs, attrs: [np.transpose(inputs[0], attrs["perm"])],
    "Pad": _pad,
    "Unsqueeze": lambda inputs, attrs: [np.expand_dims(inputs[0], attrs["axes"])],
    "Squeeze": lambda inputs, attrs: [np.squeeze(inputs[0], attrs["axes"])],
    "Conv": _conv,
    "BatchNormalization": _batch_normalization,
}
