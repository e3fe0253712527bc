"""Quantiles of Student's t distribution, for the intervals of measurements."""

from __future__ import annotations

import functools
import math

__all__ = ["student_quantile"]


@functools.cache
def student_quantile(confidence: float, degrees: int) -> float:
    """Return the t such that |T| <= t with probability `confidence`, for an odd number of degrees of freedom."""
    if degrees < 1 or degrees % 2 == 0:
        raise ValueError(f"{degrees} degrees of freedom: not an odd number")
    low, high = 0.0, 1.0
    while _probability(high, degrees) < confidence:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _probability(middle, degrees) < confidence else (low, middle)
    return high


def _probability(t: float, degrees: int) -> float:
    """Return the probability of |T| <= t (Abramowitz and Stegun 26.7.3)."""
    angle = math.atan(t / math.sqrt(degrees))
    term, total = math.cos(angle), 0.0
    for k in range(1, degrees - 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (k + 1) / (k + 2)
    return (angle + math.sin(angle) * total) * 2 / math.pi
