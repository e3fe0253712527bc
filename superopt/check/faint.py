"""Differences that are fainter than the roundings of one run, such as that of one weight among millions.

In float64, functions that are equal give equal numbers, whatever their operators would round. Only weights that a tool
has folded are rounded in the file. So here only their roundings are simulated, and those of operators at the level of
float64. A difference counts if it is at least 64 times what these explain: a folded weight may have several roundings,
and cancellations among them.

No single element of two runs in ONNX Runtime shows such a difference, as the roundings of the operators hide it. All
elements together do. If d is the difference of the outputs in float64 and r that of the runs, then r = c d + e, where e
are the roundings. By least squares c = d r / d d, with the standard deviation s = |r - c d| / (sqrt(n) |d|). The runs
confirm the difference if c is near 1 and at least 8 s, and if there are elements enough for s to mean something.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from superopt.check.rounding import Gap, find_gap

__all__ = ["OPERATOR_NOISE", "faint_gap", "follows"]

OPERATOR_NOISE = 2.0**-20  # of the operators' roundings: in float32 about 2^-44, as in float64 after long sums
_FACTOR = 64.0
_LEAST_ELEMENTS = 16
_DEVIATIONS = 8.0
_COEFFICIENT = 0.5, 2.0


def faint_gap(
    left: Sequence[Any], right: Sequence[Any], simulated: Sequence[tuple[Sequence[Any], Sequence[Any]]]
) -> Gap | None:
    """Return the largest difference of two lists of outputs in float64 that folded weights do not explain, or None."""
    gap = find_gap(left, right, simulated, [None] * len(left), _FACTOR)
    return gap if gap is not None and np.isfinite(gap.relative) else None


def follows(exact: tuple[Any, Any], runs: tuple[Any, Any]) -> bool:
    """Return True if two runs of an output differ in the direction of its two values in float64, beyond doubt."""
    d, r = (np.subtract(*(np.asarray(x, np.float64).reshape(-1) for x in pair)) for pair in (exact, runs))
    if d.shape != r.shape:
        return False
    finite = np.isfinite(d) & np.isfinite(r)
    d, r = d[finite], r[finite]
    size = float(np.linalg.norm(d))
    if np.count_nonzero(d) < _LEAST_ELEMENTS or size == 0:
        return False
    coefficient = float(d @ r) / size**2
    deviation = float(np.linalg.norm(r - coefficient * d)) / (np.sqrt(d.size) * size)
    low, high = _COEFFICIENT
    return low <= coefficient <= high and coefficient >= _DEVIATIONS * deviation
