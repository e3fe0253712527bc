"""Accuracy against float64: at most four times the original's error, also where the largest elements hide it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from superopt.runtime import Tolerance, compare_accuracy, explained, largest_error

TOLERANCE = Tolerance(depth=4, length=64)
U = 2.0**-24


def rounded(exact: np.ndarray, relative: float, seed: int = 0) -> np.ndarray:
    """Return `exact` in float32 with errors of about `relative`, relative to each row's largest element."""
    noise = np.random.default_rng(seed).uniform(-1, 1, exact.shape) * np.abs(exact).max(axis=-1, keepdims=True)
    return (exact + relative * noise).astype(np.float32)


def exact(rows: int = 64, columns: int = 64) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((rows, columns))


def test_as_accurate_passes_and_ten_times_less_accurate_does_not() -> None:
    x = exact()
    a = rounded(x, 1e-4)
    for factor, passes in ((1, True), (2, True), (10, False)):
        assert compare_accuracy([a], [rounded(x, factor * 1e-4, seed=2)], [x], TOLERANCE).ok == passes


def test_an_original_that_is_exact_by_luck_is_no_standard() -> None:
    x = np.exp2(np.arange(64)).reshape(4, 16)
    a = x.astype(np.float32)
    assert compare_accuracy([a], [a * np.float32(1 + 2 * U)], [x], TOLERANCE).ok
    assert not compare_accuracy([a], [a * np.float32(1 + 20 * U)], [x], TOLERANCE).ok


def test_large_rows_do_not_hide_errors_of_small_rows() -> None:
    x = exact() * np.logspace(0, 8, 64)[:, None]
    a, b = rounded(x, 1e-6), rounded(x, 1e-6, seed=2)
    assert compare_accuracy([a], [b], [x], TOLERANCE).ok
    b[0] += np.float32(0.1)  # a tenth of its row, a part in 10^9 of the output
    found = compare_accuracy([a], [b], [x], TOLERANCE)
    assert found.problem is not None and "along axis 0" in found.problem
    assert compare_accuracy([a.T], [rounded(x, 1e-6, seed=2).T], [x.T], TOLERANCE).ok
    assert not compare_accuracy([a.T], [b.T], [x.T], TOLERANCE).ok


def relu_rows(live: int, loss: float, seed: int) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Return outputs of two models after Relu, and the exact ones; row 0 of the second has `loss` times larger errors.

    Row 0 has `live` elements above zero, every other one about half of its 64.
    """
    rng = np.random.default_rng(seed)
    x = np.maximum(rng.standard_normal((32, 64)), 0)
    x[0, :live] = np.abs(rng.standard_normal(live)) + 0.1
    x[0, live:] = 0
    noise = 1e-4 * rng.standard_normal((2, 32, 64)) * (x > 0)
    noise[1, 0] *= loss
    return [(x + noise[0]).astype(np.float32)], [(x + noise[1]).astype(np.float32)], [x]


@pytest.mark.parametrize("live", [1, 2, 4, 8, 15, 16, 64])
def test_few_elements_above_zero_are_no_reason_to_refuse(live: int) -> None:
    """The ratio of two errors is above 4 in 16% of all pairs."""
    for seed in range(100):
        assert compare_accuracy(*relu_rows(live, 1, seed), TOLERANCE).ok, seed


@pytest.mark.parametrize(
    ("live", "loss", "least"), [(64, 8, 90), (16, 20, 99), (8, 20, 90), (2, 100, 90), (1, 1e4, 90)]
)
def test_a_row_of_few_elements_that_is_less_accurate_is_found(live: int, loss: float, least: int) -> None:
    """In at least `least` of 100 draws: by its own slice, or by the slices that cross it."""
    assert sum(not compare_accuracy(*relu_rows(live, loss, seed), TOLERANCE).ok for seed in range(100)) >= least


@pytest.mark.parametrize("inexact", [1, 4, 64])
def test_an_error_where_the_original_has_none_is_found(inexact: int) -> None:
    x = np.full((32, 64), 1e6)  # so large that only its own row shows the error
    x[0] = 1.0
    a = rounded(x, 1e-6)
    a[0, inexact:] = 1.0
    b = a.copy()
    b[0, 0] += np.float32(1e-7)
    assert compare_accuracy([a], [b], [x], TOLERANCE).ok
    b[0, -1] += np.float32(1e-2)
    found = compare_accuracy([a], [b], [x], TOLERANCE)
    assert found.problem is not None and "along axis 0" in found.problem


def test_one_lost_row_of_the_original_excuses_one_row_only() -> None:
    x = exact()
    a, b = rounded(x, 1e-6), rounded(x, 1e-6, seed=2)
    a[3] = b[5] = 7.0
    assert compare_accuracy([a], [b], [x], TOLERANCE).ok
    b[6] = 7.0
    assert not compare_accuracy([a], [b], [x], TOLERANCE).ok


def test_noise_where_the_original_is_exactly_zero_is_an_error() -> None:
    x = exact()
    x[2] = 0.0
    a = rounded(x, 1e-6)
    b = a.copy()
    assert compare_accuracy([a], [b], [x], TOLERANCE).ok
    b[2] = 1e-9
    assert not compare_accuracy([a], [b], [x], TOLERANCE).ok
    zero = np.zeros((4, 16))
    assert compare_accuracy([zero.astype(np.float32)], [zero.astype(np.float32)], [zero], TOLERANCE).ok


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_numbers_below_the_smallest_normal_count_as_rounding(dtype: Any) -> None:
    tiny = float(ml_dtypes.finfo(dtype).smallest_normal)
    x = np.full((4, 16), tiny / 2)
    assert compare_accuracy([x.astype(dtype)], [np.zeros((4, 16), dtype)], [x], TOLERANCE).ok


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_specials_are_the_originals(bad: float) -> None:
    x = exact()
    a = rounded(x, 1e-6)
    b = a.copy()
    b[0, 0] = bad
    assert not compare_accuracy([a], [b], [x], TOLERANCE).ok
    assert not compare_accuracy([b], [a], [x], TOLERANCE).ok
    assert compare_accuracy([b], [b], [x], TOLERANCE).ok
    assert not compare_accuracy([a], [a[:1]], [x], TOLERANCE).ok
    assert not compare_accuracy([a], [a.astype(np.float64)], [x], TOLERANCE).ok


def test_few_outputs_are_judged_by_further_draws_of_rounding() -> None:
    x = np.array([[1.0]])
    a, b = np.array([[1.0 + 1e-6]], np.float32), np.array([[1.0001]], np.float32)
    assert not compare_accuracy([a], [b], [x], TOLERANCE).ok
    assert compare_accuracy([a], [b], [x], TOLERANCE, [[np.array([[1.00005]])]]).ok


def test_draws_that_leave_nothing_of_an_output_excuse_nothing() -> None:
    x = np.full((1, 1000), 1e-3)  # softmax of equal logits so large that a rounding of one decides
    a = x.astype(np.float32)
    b = np.where(np.arange(1000) % 4 == 0, np.float32(4e-3), np.float32(0)).reshape(1, 1000)
    draws = [[np.roll(b, n).astype(np.float64)] for n in range(3)]
    assert not compare_accuracy([a], [b], [x], TOLERANCE, draws).ok
    assert compare_accuracy([b], [np.roll(b, 1)], [x], TOLERANCE, draws).ok  # the original has nothing right either
    coarse = a * np.float32(1 + 0.9 * 2.0**-12)
    assert (
        compare_accuracy([a], [coarse], [x], TOLERANCE, draws).ok
        and not compare_accuracy([a], [coarse], [x], TOLERANCE).ok
    )


def test_a_reference_that_roundings_do_not_explain_is_none() -> None:
    x = exact()
    a = rounded(x, 1e-3)
    assert explained([rounded(x, 1e-7)], [x], TOLERANCE)
    assert not explained([a], [x], TOLERANCE)
    assert explained([a], [x], TOLERANCE, [x + 1e-3])
    assert not explained([a], [x[:1]], TOLERANCE) and not explained([a], [x, x], TOLERANCE)
    counts = np.arange(10)
    assert explained([counts], [counts], TOLERANCE) and not explained([counts], [counts + 1], TOLERANCE)
    assert largest_error([counts], [np.where(counts == 3, 0, counts)]) == 0.1
