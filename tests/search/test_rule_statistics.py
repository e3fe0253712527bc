"""How long searches go on without success."""

from __future__ import annotations

import pytest

from superopt.search.strategy.rule_statistics import RuleStatistics


@pytest.mark.parametrize(("share", "limit"), [(0.0, 10), (0.04, 10), (0.1, 20), (0.25, 50), (1.0, 50)])
def test_after_failures_a_region_is_searched_as_long_as_it_takes_time(share: float, limit: int) -> None:
    statistics = RuleStatistics()
    assert statistics.stall_limit(share) == 50
    statistics.record(0, "rule", False, 31)
    assert statistics.stall_limit(share) == limit
    statistics.record(0, "rule", True, 5)
    assert statistics.stall_limit(share) == 50
