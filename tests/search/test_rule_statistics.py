"""The limits of searches without success."""

from __future__ import annotations

import pytest

from superopt.search.strategy.efforts import effort_plan
from superopt.search.strategy.rule_statistics import RuleStatistics


@pytest.mark.parametrize(("share", "limit"), [(0.0, 10), (0.04, 10), (0.1, 20), (0.25, 50), (1.0, 50)])
def test_after_failures_a_region_is_searched_as_long_as_it_takes_time(share: float, limit: int) -> None:
    statistics = RuleStatistics()
    assert statistics.stall_limit(share) == 50
    statistics.record(0, "rule", False, 31)
    assert statistics.stall_limit(share) == limit
    statistics.record(0, "rule", True, 5)
    assert statistics.stall_limit(share) == 50


def test_beams_are_wider_where_much_time_is_spent() -> None:
    small, large = effort_plan(0, 0.1), effort_plan(0, 0.3)
    assert large.beam[0] > small.beam[0] and large._replace(beam=small.beam) == small
    assert effort_plan(2, 1.0) == effort_plan(2, 0.0)  # as wide already
