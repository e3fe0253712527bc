"""Comparison of the outputs of two models, within a tolerance derived from the number of roundings.

The tolerance of a floating-point output is relative to its magnitude (largest finite absolute value M):

    |a - b| <= t * M,    t = C * e,    e = u * sqrt(D) + v * sqrt(L) + w * sqrt(P),    C = 4

u is the unit roundoff of the output's dtype: every stored intermediate result is rounded to it, D times on the longest
path. v is the unit roundoff of the accumulator (float32, or double for double), which rounds once for each of the L
summands on the longest path. w is the unit roundoff to which operands of products are rounded first, P times on the
longest path: 2^-11 where products of float32 are taken in TF32, else w = 0. Roundings are nearly independent, so their
sum grows as the square root of their number (Higham & Mary, "A new approach to probabilistic rounding error analysis",
SIAM J. Sci. Comput. 2019): e is the error to expect where the model amplifies no rounding, and C covers the tail. Where
a model computes in a coarser type than that of its output, u * sqrt(D) is the root of the sum of u^2 over the results
on the path, each with the roundoff of its own type.

A model may amplify roundings, or quantize, which turns a rounding into a whole step. So the original's relative
difference from itself between ONNX Runtime's optimization levels is measured as well, and t is at least four times that
difference, up to the square root of the unit roundoff of the coarsest arithmetic in the model: a difference in the
upper half of all digits is no rounding. `accuracy` compares both models with float64 instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

__all__ = [
    "Mask",
    "OutputComparison",
    "Tolerance",
    "calibrate",
    "compare",
    "difference",
    "finite_share",
    "flat",
    "identical",
    "incomparable",
    "is_float",
    "same_specials",
    "smallest_normal",
    "unit_roundoff",
    "wide",
    "worst_of",
]

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

_TAIL_FACTOR = 4.0
_OWN_SPREAD_FACTOR = 4.0
_TF32_ROUNDOFF = 2.0**-11  # 10 bits after the leading one
_UNIT_ROUNDOFF = {
    np.dtype(np.float64): 2.0**-53,
    np.dtype(np.float32): 2.0**-24,
    np.dtype(np.float16): 2.0**-11,
    np.dtype(ml_dtypes.bfloat16): 2.0**-8,
}


@dataclass(frozen=True)
class Tolerance:
    """Allowed difference of outputs.

    `depth` is D, `length` is L, `products` is P and `operands` is w of the formula above. `own_spread` is the
    relative difference of the original from itself between optimization levels. `coarsest` is the largest unit
    roundoff of any arithmetic in the model (0: that of each output). `rounded` is the root of the sum of u^2 over the
    intermediate results on the longest path, each with the roundoff of its own type (0: that of each output).
    """

    depth: int
    length: int
    own_spread: float = 0.0
    coarsest: float = 0.0
    products: int = 0
    operands: float = 0.0
    rounded: float = 0.0

    @property
    def in_tf32(self) -> Tolerance:
        """The tolerance where products of float32 round their operands to TF32."""
        return replace(self, operands=_TF32_ROUNDOFF, coarsest=max(self.coarsest, _TF32_ROUNDOFF))

    def expected(self, dtype: np.dtype[Any]) -> float:
        """Return e for outputs of `dtype`."""
        v = 2.0**-53 if dtype in (np.dtype(np.float64), np.dtype(np.complex128)) else 2.0**-24
        return max(self.stored(dtype), self.rounded) + v * math.sqrt(self.length)

    def stored(self, dtype: np.dtype[Any]) -> float:
        """Return u * sqrt(D) + w * sqrt(P), the part of e from stored results and operands, for outputs of `dtype`."""
        return unit_roundoff(dtype) * math.sqrt(self.depth) + self.operands * math.sqrt(self.products)

    def relative(self, dtype: np.dtype[Any]) -> float:
        """Return t for outputs of `dtype`."""
        amplified = min(_OWN_SPREAD_FACTOR * self.own_spread, self.largest(dtype))
        return max(_TAIL_FACTOR * self.expected(dtype), amplified)

    def largest(self, dtype: np.dtype[Any]) -> float:
        """Return the largest difference that amplified roundings excuse in outputs of `dtype`: half of the digits."""
        return math.sqrt(max(self.coarsest, unit_roundoff(dtype)))


def unit_roundoff(dtype: np.dtype[Any]) -> float:
    """Return half the distance from 1 to the next number of `dtype`; that of float32 for a type without numbers."""
    return _UNIT_ROUNDOFF.get(dtype, 2.0**-53 if dtype == np.dtype(np.complex128) else 2.0**-24)


def smallest_normal(dtype: np.dtype[Any]) -> float:
    """Return the smallest number of `dtype` with all digits; runtimes may take smaller ones for 0."""
    kind = np.dtype(np.float64) if dtype.kind == "c" and dtype.itemsize == 16 else dtype
    kind = np.dtype(np.float32) if kind.kind == "c" else kind
    return float(ml_dtypes.finfo(kind).smallest_normal)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class OutputComparison:
    """Difference of two lists of outputs.

    `worst` is the largest ratio of difference to tolerance (infinite: not comparable), at output number `output`.
    `problem` is a description of the disagreement, or None if the outputs agree.
    """

    absolute: float
    relative: float
    tolerance: float
    worst: float
    output: int
    problem: str | None

    @property
    def ok(self) -> bool:
        """True if all outputs are within tolerance."""
        return self.problem is None


def calibrate(tolerance: Tolerance, first: Sequence[Any], second: Sequence[Any]) -> Tolerance:
    """Widen `tolerance` to the difference between two runs of one model at two optimization levels."""
    own_spread = tolerance.own_spread
    for a, b in zip(flat(first), flat(second), strict=False):
        if a.shape == b.shape and a.dtype == b.dtype and a.size and is_float(a.dtype):
            own_spread = max(own_spread, difference(a, b)[1])
    return replace(tolerance, own_spread=own_spread)


def compare(
    original: Sequence[Any], result: Sequence[Any], tolerance: Tolerance, unstable: Sequence[Mask | None] = ()
) -> OutputComparison:
    """Compare outputs of the result with the original's.

    NaN and infinity must be at the same places. Integers, booleans and strings must be equal, except where `unstable`
    is True: there one mask for each output says which elements are not the same in all runs of the original.
    """
    a_all, b_all = flat(original), flat(result)
    if len(a_all) != len(b_all):
        return _other_count(a_all, b_all)
    masks = unstable or [None] * len(a_all)
    return worst_of(
        [_compare_one(n, a, b, tolerance, m) for n, (a, b, m) in enumerate(zip(a_all, b_all, masks, strict=True))]
    )


def identical(original: Sequence[Any], result: Sequence[Any]) -> OutputComparison:
    """Compare outputs of the result with the original's bit for bit; -0.0 differs from 0.0."""
    a_all, b_all = flat(original), flat(result)
    if len(a_all) != len(b_all):
        return _other_count(a_all, b_all)
    for number, (a, b) in enumerate(zip(a_all, b_all, strict=True)):
        same = a.dtype == b.dtype and a.shape == b.shape
        if not same or not (np.array_equal(a, b) if a.dtype == object else a.tobytes() == b.tobytes()):
            return _disagreement(number, f"output {number} is not bit-identical")
    return OutputComparison(0.0, 0.0, 0.0, 0.0, 0, None)


def incomparable(number: int, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> OutputComparison | None:
    """Return the finding if output `number` has another type, shape, or places of NaN and infinity, else None."""
    if a.dtype != b.dtype or a.shape != b.shape:
        problem = f"{b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}"
    elif is_float(a.dtype) and not same_specials(a, b):
        problem = "NaN or infinity in other places"
    else:
        return None
    return _disagreement(number, f"output {number}: {problem}")


def _other_count(a_all: Sequence[Any], b_all: Sequence[Any]) -> OutputComparison:
    return _disagreement(0, f"{len(b_all)} outputs instead of {len(a_all)}")


def _disagreement(number: int, problem: str) -> OutputComparison:
    """Return a finding without a measured difference."""
    return OutputComparison(math.inf, math.inf, 0.0, math.inf, number, problem)


def worst_of(comparisons: Sequence[OutputComparison]) -> OutputComparison:
    """Combine comparisons: the largest differences, and tolerance and output of the one closest to its tolerance."""
    if not comparisons:
        return OutputComparison(0.0, 0.0, 0.0, 0.0, 0, None)
    worst = max(comparisons, key=lambda c: (c.worst, c.tolerance))
    return OutputComparison(
        max(c.absolute for c in comparisons),
        max(c.relative for c in comparisons),
        worst.tolerance,
        worst.worst,
        worst.output,
        worst.problem,
    )


def _compare_one(
    number: int, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], tolerance: Tolerance, unstable: Mask | None
) -> OutputComparison:
    finding = incomparable(number, a, b)
    if finding is not None:
        return finding
    if not is_float(a.dtype):
        differs = a != b if unstable is None else (a != b) & ~unstable
        if np.any(differs):
            return _disagreement(number, f"output {number}: {np.mean(differs):.2%} of its {a.dtype} values differ")
        return OutputComparison(0.0, 0.0, 0.0, 0.0, number, None)
    absolute, relative = difference(a, b)
    allowed = tolerance.relative(a.dtype)
    problem = None
    if relative > allowed:
        problem = f"output {number}: relative difference {relative:.2e} is over the tolerance {allowed:.2e}"
    return OutputComparison(absolute, relative, allowed, relative / allowed, number, problem)


def difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return the largest |a - b| over finite elements: absolute, and relative to the largest finite |a|."""
    x, y = wide(a), wide(b)
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.any():
        return 0.0, 0.0
    absolute = float(np.max(np.abs(x[finite] - y[finite])))
    magnitude = float(np.max(np.abs(x[finite])))
    if absolute == 0.0:
        return 0.0, 0.0
    return absolute, absolute / magnitude if magnitude else math.inf


def finite_share(outputs: Sequence[Any]) -> float:
    """Return the share of the floating-point elements that are finite; 1 if there are none."""
    arrays = [array for array in flat(outputs) if is_float(array.dtype)]
    count = sum(array.size for array in arrays)
    return sum(int(np.isfinite(array).sum()) for array in arrays) / count if count else 1.0


def same_specials(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Return True if NaN and both infinities are at the same places."""
    x, y = wide(a), wide(b)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return False
    infinite = np.isinf(x) | np.isinf(y)
    return bool(np.all(x[infinite] == y[infinite]))


def wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return `array` in float64; complex numbers as they are."""
    return array if np.issubdtype(array.dtype, np.complexfloating) else array.astype(np.float64)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return True for real and complex types."""
    return dtype in _UNIT_ROUNDOFF or np.issubdtype(dtype, np.inexact)


def flat(values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Return outputs as arrays. Sequences are flattened; an absent optional is an empty array of objects."""
    arrays: list[np.ndarray[Any, Any]] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            arrays.append(np.asarray(len(value)))
            arrays.extend(flat(value))
        else:
            arrays.append(np.asarray(value))
    return arrays
