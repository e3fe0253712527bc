"""A prediction and a timing of one rewrite, combined by their precision."""

from __future__ import annotations

import math

import pytest

from superopt.search import Gain
from superopt.search.strategy.result_choice import combined_gain


@pytest.mark.parametrize(("predicted", "timed"), [(1.2, 1.05), (1.03, 0.97), (1.5, 1.5)])
def test_a_narrow_timing_decides(predicted: float, timed: float) -> None:
    assert combined_gain(predicted, Gain(timed, 0.995 * timed)) == pytest.approx(math.log(timed), abs=0.01)


@pytest.mark.parametrize("predicted", [1.02, 1.3])
def test_noise_leaves_the_decision_to_the_prediction(predicted: float) -> None:
    assert combined_gain(predicted, Gain(0.9, 0.3)) == pytest.approx(math.log(predicted), abs=0.05)


def test_the_combination_is_between_both() -> None:
    found = combined_gain(1.1, Gain(1.02, 0.98))
    assert math.log(1.02) < found < math.log(1.1)
