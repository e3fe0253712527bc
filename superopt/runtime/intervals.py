"""Confidence intervals of the centre of a few values: Student's of the mean, and that of the median.

`signed_rank` has one between the two, of values with outliers.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from superopt.runtime.student import student_quantile

__all__ = ["mean_interval", "median_interval"]


def mean_interval(values: Sequence[float], confidence: float) -> tuple[float, float, float]:
    """Return the mean of an even number of values, and both ends of Student's interval."""
    mean = statistics.fmean(values)
    deviation = float(np.std(values, ddof=1)) / math.sqrt(len(values))  # `statistics` computes in fractions
    half_width = student_quantile(confidence, len(values) - 1) * deviation
    return mean, mean - half_width, mean + half_width


def median_interval(values: list[float]) -> tuple[float, float]:
    """Return the 95% confidence interval of the median: the order statistics n/2 -+ 0.98 sqrt(n).

    They follow from the normal approximation of the binomial distribution. For few values they are the extremes.
    """
    ordered = sorted(values)
    n = len(ordered)
    half_width = 0.98 * n**0.5
    low = max(0, int(n / 2 - half_width))
    high = min(n - 1, int(n / 2 + half_width))
    return ordered[low], ordered[high]
