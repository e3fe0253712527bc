"""The search's budget: counted in work, ended by the clock at a deadline."""

from __future__ import annotations

import pytest

from superopt.search.strategy import effort_budget
from superopt.search.strategy.effort_budget import EffortBudget


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(effort_budget, "time", clock)
    return clock


def test_only_work_counts(clock: Clock) -> None:
    work = EffortBudget(limit_s=10.0)
    clock.now += 15.0  # with proofs, or something else on the machine
    assert work.spent_s == 0.0 and not work.exhausted
    work.charge_expansion(terms=20, rewrites=10)
    small = work.spent_s
    work.charge_expansion(terms=40, rewrites=20)
    assert 0 < small < work.spent_s - small < 2 * small
    while not work.exhausted:
        work.charge_expansion(40, 20)
    assert 10.0 <= work.spent_s < 10.1


def test_the_clock_ends_a_search_at_its_deadline(clock: Clock) -> None:
    work = EffortBudget(limit_s=10.0, deadline=clock.now + 30.0)
    clock.now += 29.0
    assert work.elapsed_s == 29.0 and not work.exhausted
    clock.now += 2.0
    assert work.exhausted and work.spent_s == float("inf")
