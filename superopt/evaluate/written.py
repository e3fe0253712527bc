"""Numbers that people write into models (0.5, 1e-05, the root of 2), told from those that training finds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

__all__ = ["is_written"]

_MAX_DENOMINATOR, _MAX_PRODUCT = 64, 4096
_SIGNIFICANT_DIGITS = 5
_FLOAT32_ROUNDING = 2.0**-23


def is_written(value: float) -> bool:
    """Return True for numbers that people write: few digits, simple fractions and their roots, and with pi; and limits.

    Of the float32 numbers that training finds, fewer than one in a hundred looks like that.
    """
    if abs(value) == float(np.finfo(np.float32).max) or value == float(f"{value:.{_SIGNIFICANT_DIGITS}g}"):
        return True
    with np.errstate(over="ignore"):
        if value == float(np.float32(f"{value:.{_SIGNIFICANT_DIGITS}g}")):
            return True
    square = value * value
    return any(map(_is_simple, (value, square, square * math.pi)))


def _is_simple(value: float) -> bool:
    """Return True for a fraction p/q with a small product of p and q, as far as a float32 can tell."""
    if not value or not math.isfinite(value) or not math.isfinite(1 / value):
        return False
    for number in (value, 1 / value):
        found = Fraction(number).limit_denominator(_MAX_DENOMINATOR)
        if math.isclose(number, found, rel_tol=_FLOAT32_ROUNDING):
            return abs(found.numerator * found.denominator) <= _MAX_PRODUCT
    return False
