"""The centre of a few values with outliers, and its confidence interval, from signed ranks.

The estimate is the median of the Walsh averages (x_i + x_j) / 2, i <= j (Hodges and Lehmann, "Estimates of location
based on rank tests", 1963). The interval cuts off k averages at each end, where W, the sum of those ranks 1 to n that
have a positive sign, is at most k with a probability of at most (1 - confidence) / 2 (Wilcoxon's distribution;
Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", section 3.3). It holds for every symmetric
distribution. For normal values it is as narrow as Student's within a few percent. From 12 values on, at 95%, one
outlier hardly widens it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import lru_cache

__all__ = ["signed_rank_interval"]


def signed_rank_interval(values: Sequence[float], confidence: float) -> tuple[float, float, float]:
    """Return the estimate of the values' centre, and both ends of its interval.

    Raises ValueError for too few values: they need at least 6 for 95%.
    """
    averages = sorted((x + y) / 2 for k, x in enumerate(values) for y in values[k:])
    cut = _averages_to_cut(len(values), confidence)
    return statistics.median(averages), averages[cut], averages[-1 - cut]


@lru_cache(maxsize=1 << 6)
def _averages_to_cut(count: int, confidence: float) -> int:
    """Return the largest k with P(W < k + 1) <= (1 - confidence) / 2 for `count` values."""
    ways = [1]  # ways[w] subsets of the ranks so far have the sum w
    for rank in range(1, count + 1):
        ways = [a + b for a, b in zip([*ways, *[0] * rank], [*[0] * rank, *ways], strict=True)]
    allowed, below, cut = (1 - confidence) / 2 * 2**count, 0, -1
    while below + ways[cut + 1] <= allowed:
        cut += 1
        below += ways[cut]
    if cut < 0:
        raise ValueError(f"{count} values are too few for an interval of confidence {confidence}")
    return cut
