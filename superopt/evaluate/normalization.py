"""Normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE"]


def _standardised(x: Array, attrs: Attrs, axes: tuple[int, ...]) -> Array:
    spread = np.sqrt(np.var(x, axis=axes, keepdims=True) + attrs["epsilon"])
    return np.asarray((x - np.mean(x, axis=axes, keepdims=True)) / spread)


def _from(axis: int, x: Array) -> tuple[int, ...]:
    """This axis and all after it."""
    return tuple(range(axis % x.ndim, x.ndim))


def _by_channel(value: Array, params: Sequence[Array]) -> list[Array]:
    scale, offset = (p.reshape(-1, *(1,) * (value.ndim - 2)) for p in params)
    return [value * scale + offset]


def _instance_normalization(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    x, *params = inputs
    return _by_channel(_standardised(x, attrs, tuple(range(2, x.ndim))), params)


def _group_normalization(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    x, *params = inputs
    groups = x.reshape(x.shape[0], attrs["num_groups"], -1)
    return _by_channel(_standardised(groups, attrs, (2,)).reshape(x.shape), params)


def _layer_normalization(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    x, scale, *offset = inputs
    scaled = _standardised(x, attrs, _from(attrs["axis"], x)) * scale
    return [scaled + offset[0] if offset else scaled]


def _rms_normalization(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    x, scale = inputs
    square = np.mean(np.square(x), axis=_from(attrs["axis"], x), keepdims=True)
    return [x / np.sqrt(square + attrs["epsilon"]) * scale]


def _lp_normalization(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    norm = np.linalg.norm(inputs[0], attrs["p"], axis=attrs["axis"], keepdims=True)
    return [inputs[0] / np.where(norm == 0, 1, norm)]


def _log_softmax(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    return [inputs[0] - np.logaddexp.reduce(inputs[0], axis=attrs["axis"], keepdims=True)]


COMPUTE: Mapping[str, Compute] = {
    "InstanceNormalization": _instance_normalization,
    "GroupNormalization": _group_normalization,
    "LayerNormalization": _layer_normalization,
    "RMSNormalization": _rms_normalization,
    "LpNormalization": _lp_normalization,
    "Softmax": lambda inputs, attrs: [np.exp(_log_softmax(inputs, attrs)[0])],
    "LogSoftmax": _log_softmax,
}
