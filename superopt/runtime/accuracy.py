"""Accuracy of two models' outputs against a float64 evaluation of the original.

A result may have at most four times the original's error. Let x be an output and x64 its float64 value. Errors are
relative to the largest magnitude of a group G of elements:

    error(x, G) = max over G of |x - x64|  /  max over G of |x64|

The groups are the whole output, and for each axis the slices along it: a sample, a row, a channel. So large elements do
not hide errors of small ones. Slices of fewer than 16 elements are left out: their largest error is a matter of luck.
Which slice has the largest error is luck as well, so the k-th largest error of the result is compared with the k-th
largest error of the original:

    error_k(result) <= 4 * error_k(original) + u * sqrt(D)

u is the unit roundoff of the output's type, and D the number of stored results on the longest path: u * sqrt(D) is the
error to expect if each of them is rounded once and none is amplified (`Tolerance.stored`). An original that is more
accurate than that is so by luck. Errors below the smallest normal number count as one rounding. NaN and infinity must
be at the original's places.

The original's own error is one draw at random, which matters where a model amplifies roundings and has few outputs. So
evaluations in float64 with random roundings of the original's operators are further draws. They excuse errors in the
lower half of the digits only (`Tolerance.largest`): where random roundings would leave nothing of an output, and the
original none the less has it right, the result must have it right as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from superopt.runtime.compare import (
    OutputComparison,
    Tolerance,
    difference,
    flat,
    incomparable,
    is_float,
    unit_roundoff,
    wide,
    worst_of,
)

__all__ = ["compare_accuracy", "explained", "largest_error"]

_MAX_FACTOR = 4.0
_MIN_SLICE = 16  # of 16 independent errors the largest is seldom (1 : 10^6) below a quarter of a usual one

# Errors of the whole output and of the slices along each axis, each list in descending order.
_Errors: TypeAlias = list[np.ndarray[Any, np.dtype[np.float64]]]


def largest_error(found: Sequence[Any], exact: Sequence[Any]) -> float:
    """Return the largest relative error of any output; infinite if an output has another shape than in float64."""
    return max((_error(a, x) for a, x in zip(flat(found), flat(exact), strict=True)), default=0.0)


def explained(original: Sequence[Any], exact: Sequence[Any], tolerance: Tolerance, noisy: Sequence[Any] = ()) -> bool:
    """Return True if roundings explain the differences of the original's outputs from `exact`: it is a reference.

    Four times the expected error and that of `noisy`, an evaluation with random roundings, are explained.
    """
    a_all, x_all, n_all = flat(original), flat(exact), flat(noisy)
    if len(a_all) != len(x_all):
        return False
    for number, (a, x) in enumerate(zip(a_all, x_all, strict=True)):
        if a.shape != x.shape:
            return False
        if not a.size or a.dtype == object:
            continue
        own = _error(n_all[number], x) if n_all else 0.0
        floor = tolerance.expected(a.dtype) if is_float(a.dtype) else 0.0
        if _error(a, x) > _MAX_FACTOR * (floor + own):
            return False
    return True


def compare_accuracy(
    original: Sequence[Any],
    result: Sequence[Any],
    exact: Sequence[Any],
    tolerance: Tolerance,
    noisy: Sequence[Sequence[Any]] = (),
) -> OutputComparison:
    """Compare the floating-point outputs of both models with float64; others are not looked at.

    `noisy` are evaluations of the original with random roundings. The `tolerance` of the comparison is the error that
    the result may have.
    """
    a_all, b_all, x_all = flat(original), flat(result), flat(exact)
    draws = [flat(one) for one in noisy]
    found: list[OutputComparison] = []
    for number, (a, b, x) in enumerate(zip(a_all, b_all, x_all, strict=True)):
        if not is_float(a.dtype):
            continue
        finding = incomparable(number, a, b)
        if finding is not None:
            return finding
        found.append(_compare_one(number, a, b, x, tolerance, [draw[number] for draw in draws]))
    return worst_of(found)


def _compare_one(
    number: int,
    a: np.ndarray[Any, Any],
    b: np.ndarray[Any, Any],
    x: np.ndarray[Any, Any],
    tolerance: Tolerance,
    draws: Sequence[np.ndarray[Any, Any]],
) -> OutputComparison:
    """Compare the errors of one output in all groups. The finding is that of the group closest to its bound."""
    counted = np.isfinite(wide(a)) & np.isfinite(x)
    floor, largest = tolerance.stored(a.dtype), tolerance.largest(a.dtype) / _MAX_FACTOR
    standard = _errors(a, x, counted, a.dtype)
    for draw in draws:
        drawn = [np.minimum(errors, largest) for errors in _errors(draw, x, counted, a.dtype)]
        standard = [np.maximum(s, d) for s, d in zip(standard, drawn, strict=True)]
    worst, allowed, problem = 0.0, _MAX_FACTOR * float(standard[0][0]) + floor if a.size else floor, None
    for place, (own, errors) in enumerate(zip(standard, _errors(b, x, counted, a.dtype), strict=True)):
        if not errors.size:
            continue
        bound = _MAX_FACTOR * own + floor
        k = int(np.argmax(errors / bound))
        if errors[k] / bound[k] > worst:
            worst = float(errors[k] / bound[k])
            if worst > 1:
                group = "" if place == 0 else f" in slices along axis {place - 1}"
                problem = (
                    f"output {number}: its error against float64 is {errors[k]:.2e}{group}, the original's {own[k]:.2e}"
                )
    absolute, relative = difference(a, b)
    return OutputComparison(absolute, relative, allowed, worst, number, problem)


def _error(a: np.ndarray[Any, Any], x: np.ndarray[Any, Any]) -> float:
    """Return the relative error of a real output, the share of different elements of another one."""
    if a.shape != x.shape:
        return math.inf
    if not a.size:
        return 0.0
    if not is_float(a.dtype):
        return float(np.mean(a != x))
    counted = np.isfinite(wide(a)) & np.isfinite(x)
    return float(_errors(a, x, counted, a.dtype)[0][0])


def _errors(
    a: np.ndarray[Any, Any], x: np.ndarray[Any, Any], counted: np.ndarray[Any, Any], dtype: np.dtype[Any]
) -> _Errors:
    """Return the relative errors of all groups; elements that are not `counted` have none."""
    with np.errstate(all="ignore"):
        error = np.where(counted, np.abs(wide(a) - x), 0.0)
        magnitude = np.where(counted, np.abs(x), 0.0)
    if not error.size:
        return [np.zeros(0)]
    least = _smallest_normal(dtype) / unit_roundoff(dtype)
    found = [np.array([error.max() / max(magnitude.max(), least)])]
    for axis, size in enumerate(error.shape):
        if size == 1 or error.size // size < _MIN_SLICE:
            found.append(np.zeros(0))
            continue
        others = tuple(k for k in range(error.ndim) if k != axis)
        slices = error.max(axis=others) / np.maximum(magnitude.max(axis=others), least)
        found.append(np.sort(slices)[::-1])
    return found


def _smallest_normal(dtype: np.dtype[Any]) -> float:
    kind = np.dtype(np.float64) if dtype.kind == "c" and dtype.itemsize == 16 else dtype
    kind = np.dtype(np.float32) if kind.kind == "c" else kind
    return float(ml_dtypes.finfo(kind).smallest_normal)  # type: ignore[no-untyped-call]
