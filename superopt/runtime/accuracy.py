"""Accuracy of two models' outputs against a float64 evaluation of the original.

A result may have at most four times the original's error. Let x be an output and x64 its float64 value. Errors are
relative to the largest magnitude of a group G of elements:

    error(x, G) = max over G of |x - x64|  /  max over G of |x64|

The groups are the whole output, and for each axis the slices along it: a sample, a row, a channel. So large elements do
not hide errors of small ones. Slices of fewer than 16 elements are left out: their largest error is a matter of luck.
Which slice has the largest error is luck as well, so the k-th largest error of the result is compared with the k-th
largest error of the original:

    error_k(result) <= 4 * error_k(original) + u * sqrt(D)

A slice is *sparse* if the original has errors at n < 16 of its elements and the result at no others, such as a channel
of which Relu leaves one element. Of n independent errors the largest is below 1/r of its usual size with a probability
of about r^-n. r = 4^(16/n) makes this as improbable for each n, so it replaces the factor 4 of a sparse slice. A sparse
slice is compared with itself only, because its factor is no standard for other slices. Two results of the same accuracy
are then refused about once in 10^6 slices.

u is the unit roundoff of the output's type, and D the number of stored results on the longest path: u * sqrt(D) is the
error to expect if each of them is rounded once and none is amplified (`Tolerance.stored`, which adds that of products
in TF32). An original that is more accurate than that is so by luck. Errors below the smallest normal number count as
one rounding. NaN and infinity must be at the original's places.

The original's own error is one draw at random, which matters where a model amplifies roundings and has few outputs. So
evaluations in float64 with random roundings of the original's operators are further draws. They excuse errors in the
lower half of the digits only (`Tolerance.largest`): where random roundings would leave nothing of an output, and the
original none the less has it right, the result must have it right as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from superopt.runtime.compare import (
    Mask,
    OutputComparison,
    Tolerance,
    difference,
    flat,
    incomparable,
    is_float,
    smallest_normal,
    unit_roundoff,
    wide,
    worst_of,
)

__all__ = ["compare_accuracy", "explained", "largest_error"]

_MAX_FACTOR = 4.0
_MIN_SLICE = 16  # of 16 independent errors the largest is seldom (1 : 10^6) below a quarter of a usual one

_Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


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
    absolute, relative = difference(a, b)
    floor, largest = tolerance.stored(a.dtype), tolerance.largest(a.dtype) / _MAX_FACTOR
    worst, allowed, problem = 0.0, floor, None
    counted = np.isfinite(wide(a)) & np.isfinite(x)
    runs = [_absolute(run, x, counted) for run in (a, b, *draws)]
    magnitude = _absolute(np.zeros_like(x), x, counted)
    for axis in _axes(a.shape):
        scale = np.maximum(_largest(magnitude, axis), _least_magnitude(a.dtype))
        factors = _factors(runs[0], runs[1], axis)
        own, theirs, *drawn = (_arranged(_largest(run, axis) / scale, factors) for run in runs)
        for one in drawn:
            own = np.maximum(own, np.minimum(one, largest))
        bound = np.sort(factors) * own + floor
        if axis is None:
            allowed = float(bound[0])
        k = int(np.argmax(theirs / bound))
        if theirs[k] / bound[k] > worst:
            worst = float(theirs[k] / bound[k])
            if worst > 1:
                group = "" if axis is None else f" in slices along axis {axis}"
                problem = (
                    f"output {number}: its error against float64 is {theirs[k]:.2e}{group}, the original's {own[k]:.2e}"
                )
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
    magnitude = max(_absolute(np.zeros_like(x), x, counted).max(), _least_magnitude(a.dtype))
    return float(_absolute(a, x, counted).max() / magnitude)


def _axes(shape: Sequence[int]) -> list[int | None]:
    """Return None for the whole output, and the axes along which slices have enough elements."""
    count = math.prod(shape)
    if not count:
        return []
    return [None, *(axis for axis, size in enumerate(shape) if size > 1 and count // size >= _MIN_SLICE)]


def _factors(own: _Array, theirs: _Array, axis: int | None) -> _Array:
    """Return how many times the original's error each slice may have."""
    if axis is None:
        return np.array([_MAX_FACTOR])
    others = _others(own, axis)
    found = np.count_nonzero(own, axis=others)
    sparse = (found > 0) & (found < _MIN_SLICE) & ~((theirs > 0) & (own == 0)).any(axis=others)
    return np.where(sparse, _MAX_FACTOR ** (_MIN_SLICE / np.maximum(found, 1)), _MAX_FACTOR)


def _arranged(errors: _Array, factors: _Array) -> _Array:
    """Return the errors of full slices in descending order, then those of sparse slices in the order of `factors`."""
    sparse = factors > _MAX_FACTOR
    by_factor = np.argsort(factors[sparse], kind="stable")
    return np.concatenate([np.sort(errors[~sparse])[::-1], errors[sparse][by_factor]])


def _absolute(a: np.ndarray[Any, Any], x: np.ndarray[Any, Any], counted: Mask) -> _Array:
    """Return |a - x|, and 0 for elements that are not `counted`."""
    with np.errstate(all="ignore"):
        error: _Array = np.where(counted, np.abs(wide(a) - x), 0.0)
    return error


def _largest(values: _Array, axis: int | None) -> _Array:
    """Return the largest element of each slice along `axis`; None: that of all."""
    found: _Array = values.max(keepdims=True).reshape(1) if axis is None else values.max(axis=_others(values, axis))
    return found


def _others(values: _Array, axis: int) -> tuple[int, ...]:
    return tuple(k for k in range(values.ndim) if k != axis)


def _least_magnitude(dtype: np.dtype[Any]) -> float:
    """Return the magnitude whose unit roundoff is the smallest normal number of `dtype`."""
    return smallest_normal(dtype) / unit_roundoff(dtype)
