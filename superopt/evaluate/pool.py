"""Pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE"]


def _windows(x: Array, attrs: Attrs, padding: float) -> Array:
    """Every window over x: (N, C, place..., position...)."""
    spatial = x.ndim - 2
    begins, ends = attrs["pads"][:spatial], attrs["pads"][spatial:]
    x = np.pad(x, [(0, 0), (0, 0), *zip(begins, ends, strict=True)], constant_values=padding)
    reach = tuple((k - 1) * d + 1 for k, d in zip(attrs["kernel_shape"], attrs["dilations"], strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, x.ndim)))
    steps = [slice(None, None, step) for step in (*attrs["strides"], *attrs["dilations"])]
    return windows[(slice(None), slice(None), *steps)]


def _positions(x: Array) -> tuple[int, ...]:
    return tuple(range(2 - x.ndim, 0))


def _max_pool(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (x,) = inputs
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return [np.max(_windows(x, attrs, lowest), axis=_positions(x))]


def _average_pool(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (x,) = inputs
    counted = _windows(np.ones((1, 1, *x.shape[2:])), attrs, 1.0 if attrs["count_include_pad"] else 0.0)
    return [np.sum(_windows(x, attrs, 0.0), axis=_positions(x)) / np.sum(counted, axis=_positions(x))]


COMPUTE: Mapping[str, Compute] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalMaxPool": lambda inputs, attrs: [np.max(inputs[0], axis=_positions(inputs[0]), keepdims=True)],
    "GlobalAveragePool": lambda inputs, attrs: [np.mean(inputs[0], axis=_positions(inputs[0]), keepdims=True)],
}
