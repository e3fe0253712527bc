"""Scalar functions, element by element; operands broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from superopt.generate.field.arithmetic import (
    HALF,
    Array,
    Attrs,
    Kernel,
    P,
    Shape,
    aligned,
    inverse,
    maximum,
    minimum,
    negative,
    residue,
    scaled,
)
from superopt.generate.field.functions import below_zero, erf, exp, hard, log, sigmoid, sqrt, tanh
from superopt.generate.field.reduce import absolute

__all__ = ["KERNELS", "quick_gelu"]

_P = np.uint64(P)
_UNIT = 3  # Floor, Ceil and Round take a number for so many parts of 1; odd, so that there are no halves to round
_HALVES = 64  # Pow takes n/2 for a half up to this n
_HALF_OF_ONE = residue(0.5)


def _unary(function: Callable[[Array], Array]) -> Kernel:
    return lambda xs, shapes, attrs, out: function(xs[0])


def _plus(x: Array, number: int) -> Array:
    result: Array = (x + np.uint64(number)) % _P
    return result


def _times(x: Array, y: Array) -> Array:
    result: Array = x * y % _P
    return result


def _signed(x: Array) -> npt.NDArray[np.int64]:
    whole = x.astype(np.int64)
    return np.where(x > HALF, whole - P, whole)


def _floor(x: Array) -> Array:
    return ((_signed(x) // _UNIT * _UNIT) % P).astype(np.uint64)


def _round(x: Array) -> Array:
    return (((_signed(x) + _UNIT // 2) // _UNIT * _UNIT) % P).astype(np.uint64)


def _sign(x: Array) -> Array:
    return np.where(x == 0, np.uint64(0), np.where(x <= HALF, np.uint64(1), np.uint64(P - 1)))


def _div(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    left, right = aligned(xs, shapes, out)
    return _times(left, inverse(right))


def _integer_power(x: Array, exponent: npt.NDArray[np.int64]) -> Array:
    """x^exponent by squaring, the inverse for negative exponents; x^0 = 1."""
    base = np.where(exponent < 0, inverse(x), x) if (exponent < 0).any() else x
    left = np.abs(exponent)
    result = np.ones(np.broadcast_shapes(x.shape, exponent.shape), dtype=np.uint64)
    while left.any():
        result = np.where(left & 1, result * base % _P, result)
        left = left >> 1
        base = _times(base, base)
    return result


def _pow(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """x^y for whole y, x^((n - 1) / 2) * sqrt(x) for y = n/2 with small odd n; other fractions are read as if whole."""
    x, y = aligned(xs, shapes, out)
    twice = _signed(scaled(y, 2))
    halved = (np.abs(twice) <= _HALVES) & (twice % 2 == 1)
    if not halved.any():
        return _integer_power(x, _signed(y))
    rest = _times(_integer_power(x, np.abs(twice) // 2), sqrt(x))
    rooted = np.where(twice < 0, inverse(rest), rest)
    return np.where(halved, rooted, _integer_power(x, np.where(halved, 0, _signed(y))))


def _extreme(choose: Callable[..., Array]) -> Kernel:
    return lambda xs, shapes, attrs, out: choose(*aligned(xs, shapes, out))


def _clip(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """min(bound_high, max(x, bound_low)); infinite bounds are none."""
    x, low, high = xs[0], attrs["bound_low"], attrs["bound_high"]
    x = x if low == -math.inf else maximum(x, np.full((), residue(low), dtype=np.uint64))
    return x if high == math.inf else minimum(x, np.full((), residue(high), dtype=np.uint64))


def _piecewise(x: Array, otherwise: Array) -> Array:
    """x where x >= 0."""
    return np.where(x <= HALF, x, otherwise)


def _prelu(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    x, slope = aligned(xs, shapes, out)
    return _piecewise(x, _times(x, slope))


def _hard_sigmoid(x: Array, alpha: int, beta: int) -> Array:
    return hard(_plus(scaled(x, alpha), beta))


def _softplus(x: Array) -> Array:
    """log(1 + exp(x))."""
    return log(_plus(exp(x), 1))


def _softsign(x: Array) -> Array:
    """x / (1 + |x|)."""
    return _times(x, inverse(_plus(absolute(x), 1)))


def _gelu(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """x * (1 + erf(x / sqrt(2))) / 2, or x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2."""
    x = xs[0]
    if attrs["approximate"] == "tanh":
        cubic = scaled(_times(_times(x, x), x), residue(0.044715))
        curve = tanh(scaled((x + cubic) % _P, residue(math.sqrt(2 / math.pi))))
    else:
        curve = erf(scaled(x, residue(math.sqrt(0.5))))
    return _times(x, scaled(_plus(curve, 1), _HALF_OF_ONE))


def quick_gelu(x: Array, alpha: float) -> Array:
    """x * sigmoid(alpha * x)."""
    return _times(x, sigmoid(scaled(x, residue(alpha))))


def _elu(x: Array, alpha: int) -> Array:
    """x for x >= 0, alpha * curve(x) for x < 0; the curve, exp(x) - 1 by its name only, is below zero."""
    return _piecewise(x, scaled(below_zero(x, "Elu"), alpha))


def _celu(x: Array, alpha: int) -> Array:
    """x for x >= 0, alpha * curve(x / alpha) for x < 0, which is how ONNX's formula reads for alpha > 0."""
    return _piecewise(x, scaled(below_zero(scaled(x, pow(alpha, P - 2, P)), "Elu"), alpha))


def _thresholded(x: Array, alpha: float) -> Array:
    """x for x > alpha, else 0."""
    above = maximum(x, np.full((), residue(alpha), dtype=np.uint64)) != residue(alpha)
    return np.where(above, x, np.uint64(0))


KERNELS: Mapping[str, Kernel] = {
    "Sqrt": _unary(sqrt),
    "Reciprocal": _unary(inverse),
    "Exp": _unary(exp),
    "Log": _unary(log),
    "Erf": _unary(erf),
    "Abs": _unary(absolute),
    "Sign": _unary(_sign),
    "Floor": _unary(_floor),
    "Ceil": _unary(lambda x: negative(_floor(negative(x)))),
    "Round": _unary(_round),
    "Softplus": _unary(_softplus),
    "Mish": _unary(lambda x: _times(x, tanh(_softplus(x)))),
    "Softsign": _unary(_softsign),
    "HardSwish": _unary(lambda x: _times(x, _hard_sigmoid(x, residue(1 / 6), _HALF_OF_ONE))),
    "Div": _div,
    "Pow": _pow,
    "Min": _extreme(minimum),
    "Max": _extreme(maximum),
    "Clip": _clip,
    "LeakyRelu": lambda xs, shapes, attrs, out: _piecewise(xs[0], scaled(xs[0], residue(attrs["alpha"]))),
    "PRelu": _prelu,
    "HardSigmoid": lambda xs, shapes, attrs, out: _hard_sigmoid(xs[0], residue(attrs["alpha"]), residue(attrs["beta"])),
    "Gelu": _gelu,
    "Elu": lambda xs, shapes, attrs, out: _elu(xs[0], residue(attrs["alpha"])),
    "Selu": lambda xs, shapes, attrs, out: scaled(_elu(xs[0], residue(attrs["alpha"])), residue(attrs["gamma"])),
    "Celu": lambda xs, shapes, attrs, out: _celu(xs[0], residue(attrs["alpha"])),
    "ThresholdedRelu": lambda xs, shapes, attrs, out: _thresholded(xs[0], attrs["alpha"]),
}
