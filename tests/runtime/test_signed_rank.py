"""Intervals from signed ranks: the published critical values, the coverage, and what outliers do."""

from __future__ import annotations

import random

import pytest

from superopt.runtime.signed_rank import _averages_to_cut, signed_rank_interval


@pytest.mark.parametrize(
    ("count", "cut"), [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89)]
)
def test_critical_values(count: int, cut: int) -> None:
    """The largest sums of ranks that are significant at 5% on two sides, as in tables of Wilcoxon's test."""
    assert _averages_to_cut(count, 0.95) == cut


def test_a_higher_confidence_cuts_off_less() -> None:
    assert [_averages_to_cut(8, confidence) for confidence in (0.9, 0.95, 0.98, 0.99)] == [5, 3, 1, 0]
    for count, confidence in ((5, 0.95), (8, 0.999), (0, 0.95)):
        with pytest.raises(ValueError, match="too few"):
            _averages_to_cut(count, confidence)


def test_estimate_and_ends() -> None:
    values = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert signed_rank_interval(values, 0.95) == (3.5, 1.0, 6.0)
    assert signed_rank_interval([v + 10 for v in reversed(values)], 0.95) == (13.5, 11.0, 16.0)
    assert signed_rank_interval([-v for v in values], 0.95) == (-3.5, -6.0, -1.0)


def test_one_outlier_does_not_widen_the_interval() -> None:
    values = [0.97, 0.98, 0.98, 0.99, 1.0, 1.0, 1.0, 1.01, 1.01, 1.02, 1.02, 1.03]
    usual, spoilt = signed_rank_interval(values, 0.95), signed_rank_interval([*values[:-1], 50.0], 0.95)
    assert usual[1] <= spoilt[1] <= spoilt[0] <= spoilt[2] <= max(values) and spoilt[0] - usual[0] < 0.01


@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("count", [8, 12, 24])
def test_coverage(share: float, count: int) -> None:
    """The interval contains the centre in at least 95% of the cases, for normal values and with outliers."""
    rng = random.Random(f"{share}{count}")
    covered, trials = 0, 1500
    for _ in range(trials):
        values = [rng.gauss(0, 8 if rng.random() < share else 1) for _ in range(count)]
        _, low, high = signed_rank_interval(values, 0.95)
        covered += low <= 0 <= high
    assert covered >= 0.935 * trials  # 95% less 2.7 standard deviations
