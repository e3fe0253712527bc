"""Scalar functions, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np

from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE"]


def _unary(function: Callable[[Array], Array]) -> Compute:
    return lambda inputs, attrs: [function(inputs[0])]


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _div(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """Of integers, rounded towards zero."""
    a, b = inputs
    return [a / b if a.dtype.kind == "f" else (a - np.fmod(a, b)) // b]


def _clip(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (x,), low, high = inputs, attrs["bound_low"], attrs["bound_high"]
    x = x if low == -math.inf else np.maximum(x, x.dtype.type(low))
    return [x if high == math.inf else np.minimum(x, x.dtype.type(high))]


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


def _gelu(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (x,) = inputs
    if attrs["approximate"] == "tanh":
        return [0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))]
    return [0.5 * x * (1 + _erf(x / math.sqrt(2)))]


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x >= 0, x, alpha * np.expm1(x))


def _celu(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    (x,), alpha = inputs, attrs["alpha"]
    return [np.maximum(0, x) + np.minimum(0, alpha * np.expm1(x / alpha))]


COMPUTE: Mapping[str, Compute] = {
    "Sqrt": _unary(np.sqrt),
    "Reciprocal": _unary(np.reciprocal),
    "Exp": _unary(np.exp),
    "Log": _unary(np.log),
    "Erf": _unary(_erf),
    "Abs": _unary(np.abs),
    "Sign": _unary(np.sign),
    "Floor": _unary(np.floor),
    "Ceil": _unary(np.ceil),
    "Round": _unary(np.rint),
    "Softplus": _unary(lambda x: np.logaddexp(0, x)),
    "Mish": _unary(lambda x: x * np.tanh(np.logaddexp(0, x))),
    "Softsign": _unary(lambda x: x / (1 + np.abs(x))),
    "HardSwish": _unary(lambda x: x * _hard_sigmoid(x, 1 / 6, 0.5)),
    "Div": _div,
    "Pow": lambda inputs, attrs: [np.power(inputs[0], inputs[1].astype(np.float64, copy=False))],
    "Min": lambda inputs, attrs: [reduce(np.minimum, inputs)],
    "Max": lambda inputs, attrs: [reduce(np.maximum, inputs)],
    "Clip": _clip,
    "LeakyRelu": lambda inputs, attrs: [np.where(inputs[0] >= 0, inputs[0], attrs["alpha"] * inputs[0])],
    "PRelu": lambda inputs, attrs: [np.where(inputs[0] >= 0, inputs[0], inputs[1] * inputs[0])],
    "HardSigmoid": lambda inputs, attrs: [_hard_sigmoid(inputs[0], attrs["alpha"], attrs["beta"])],
    "Gelu": _gelu,
    "Elu": lambda inputs, attrs: [_elu(inputs[0], attrs["alpha"])],
    "Selu": lambda inputs, attrs: [attrs["gamma"] * _elu(inputs[0], attrs["alpha"])],
    "Celu": _celu,
    "ThresholdedRelu": lambda inputs, attrs: [np.where(inputs[0] > attrs["alpha"], inputs[0], 0)],
}
