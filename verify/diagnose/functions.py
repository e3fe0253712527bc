"""Numeric values of the scalar functions in definitions. Their laws are in `verify.prove.application` and `laws`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from verify.prove.real_types import ROUNDINGS

__all__ = ["FUNCTIONS"]


def _as_float(rounding: Callable[[float], float]) -> Callable[[float], float]:
    """Return a rounding of floats for integers as well: infinity for those beyond the largest float."""

    def rounded(x: float) -> float:
        try:
            return rounding(float(x))
        except OverflowError:
            return math.inf if x > 0 else -math.inf

    return rounded


def _within(bound: float, function: Callable[[float], float]) -> Callable[[float], float]:
    """Return `function` up to |x| = bound, and infinity beyond: there a float cannot tell its value from its limit."""
    return lambda x: function(x) if abs(x) <= bound else math.inf


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def _log(x: float) -> float:
    return math.log(x) if x > 0 else math.nan


def _reciprocal(x: float) -> float:
    return 1.0 / x if x else math.nan


def _power(x: float, y: float) -> float:
    try:
        result = x**y
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return result if isinstance(result, (int, float)) else math.nan


def _truncated_quotient(x: float, y: float) -> float:
    """Divide integers and round towards zero, as ONNX does from opset 14 on."""
    if not int(y):  # 0, or a number of a real type, which a rule has at a type of integers
        return math.nan
    quotient = abs(int(x)) // abs(int(y))
    return quotient if (x < 0) == (y < 0) else -quotient


def _real_remainder(x: float, y: float) -> float:
    """Return x - q * y, where q is x / y rounded towards zero."""
    return math.fmod(x, y) if y and math.isfinite(x) else math.nan


def _truncate(x: float) -> float:
    return math.trunc(x) if math.isfinite(x) else math.nan


def _floor(x: float) -> float:
    return float(math.floor(x)) if math.isfinite(x) else math.nan


def _round(x: float) -> float:
    """Round to the nearest integer, halves to even."""
    return float(round(x)) if math.isfinite(x) else math.nan


def _interpolation_weight(numerator: float, denominator: float, tap: float) -> float:
    """Return the weight of floor(c) + tap, for tap 0 or 1, in a linear interpolation at c = numerator / denominator."""
    return 1 - abs((numerator % denominator) / denominator - tap)


def _from_real(bits: int, signed: bool) -> Callable[[float], float]:
    """Return a rounding towards zero; NaN for values outside the type, which ONNX leaves undefined."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)

    def convert(x: float) -> float:
        return math.trunc(x) if low <= math.trunc(x) <= high else math.nan

    return convert


def _saturated(bits: int, signed: bool) -> Callable[[float], float]:
    """Return the rounding to the nearest integer of a type, halves to even."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return lambda x: low if math.isnan(x) else round(min(max(x, low), high))


def _wrapped(bits: int, signed: bool) -> Callable[[float], float]:
    def wrap(x: float) -> float:
        value = int(x) % (1 << bits)
        return value - (1 << bits) if signed and value >> (bits - 1) else value

    return wrap


FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "reciprocal": _reciprocal,
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "exp": _within(600, math.exp),
    "log": _log,
    "power": _power,
    "sigmoid": _within(30, _sigmoid),
    "tanh": _within(15, math.tanh),
    "erf": _within(5, math.erf),
    "sin": math.sin,
    "cos": math.cos,
    "truncate": _truncate,  # towards zero
    "floor": _floor,
    "round": _round,  # to the nearest integer, halves to even
    "truncated_quotient": _truncated_quotient,
    "real_remainder": _real_remainder,
    "interpolation_weight": _interpolation_weight,
    # Lossy casts: rounding to a narrower float, wrapping to a narrower integer.
    **{name: _as_float(rounding) for name, rounding in ROUNDINGS.items()},
    "to_int64": _wrapped(64, True),
    "to_int32": _wrapped(32, True),
    "to_int16": _wrapped(16, True),
    "to_int8": _wrapped(8, True),
    "to_uint64": _wrapped(64, False),
    "to_uint32": _wrapped(32, False),
    "to_uint16": _wrapped(16, False),
    "to_uint8": _wrapped(8, False),
    **{f"from_real_to_int{n}": _from_real(n, True) for n in (8, 16, 32, 64)},
    **{f"from_real_to_uint{n}": _from_real(n, False) for n in (8, 16, 32, 64)},
    **{f"saturate_to_int{n}": _saturated(n, True) for n in (8, 16)},
    **{f"saturate_to_uint{n}": _saturated(n, False) for n in (8, 16)},
}
