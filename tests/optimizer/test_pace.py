"""A run's time, divided among its phases."""

from __future__ import annotations

import os

import pytest

from superopt.optimizer.pace import Pace, busyness


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("superopt.optimizer.pace.time.monotonic", lambda: now[0])
    return now


def test_the_search_leaves_time_for_what_follows(clock: list[float]) -> None:
    run = Pace(40.0)
    assert run.search_deadline() == pytest.approx(1000 + 0.6 * 40)
    assert run.regions_deadline() == pytest.approx(1000 + 0.7 * 40)
    run.reference_s = 5.0  # so long ran the original, and comparing takes up to twice as long
    assert run.search_deadline() == pytest.approx(1000 + 0.6 * 40 - 10)
    clock[0] += 4.0
    assert run.search_deadline(0.5) == pytest.approx(1004 + 0.5 * (0.6 * 40 - 14))


def test_a_search_that_begins_late_has_a_part_of_the_budget(clock: list[float]) -> None:
    run = Pace(40.0)
    clock[0] += 35.0
    assert run.search_deadline() == pytest.approx(1035 + 0.15 * 40)
    assert run.regions_deadline() == pytest.approx(1035 + 0.2 * 40)


def test_a_model_that_runs_long_is_not_estimated(clock: list[float]) -> None:
    run, late = Pace(40.0), Pace(40.0)
    assert run.has_time_to_estimate
    run.reference_s = 9.0
    assert not run.has_time_to_estimate
    clock[0] += 33.0
    assert not late.has_time_to_estimate


def test_evaluations_in_float64_take_a_part_of_the_time_that_is_left(clock: list[float]) -> None:
    run = Pace(40.0)
    clock[0] += 30.0
    assert run.references_s == pytest.approx(4)
    clock[0] += 30.0
    assert run.references_s == 0


def test_a_run_that_times_nothing_searches_longer() -> None:
    assert Pace(40.0, is_timed=False).search_work_s > 2 * Pace(40.0).search_work_s


def test_another_candidate_needs_time_to_be_compared_and_measured(clock: list[float]) -> None:
    timed, untimed = Pace(40.0), Pace(40.0, is_timed=False)
    timed.reference_s = untimed.reference_s = 5.0
    assert timed.has_time_for_another and untimed.has_time_for_another
    clock[0] += 30.0  # comparing may take the ten seconds that are left
    assert not timed.has_time_for_another and untimed.has_time_for_another
    clock[0] += 6.0
    assert not untimed.has_time_for_another


def test_a_run_that_need_not_search_takes_less_time(clock: list[float]) -> None:
    run = Pace(40.0)
    clock[0] += 4.0
    run.leave_checks()
    assert run.left_s == pytest.approx(0.3 * 40)
    late = Pace(40.0)
    late.reference_s = 6.0
    clock[0] += 10.0
    late.leave_checks()
    late.leave_checks()  # of bodies, and of the model around them
    assert late.left_s == pytest.approx(0.45 * 40 - 10)


@pytest.mark.parametrize(("load", "expected"), [(0.1, 1.0), (1.5, 1.5), (9.0, 2.0), (None, 1.0)])
def test_a_busy_machine_takes_longer_and_does_no_more(
    monkeypatch: pytest.MonkeyPatch, load: float | None, expected: float
) -> None:
    def loads() -> tuple[float, float, float]:
        if load is None:
            raise OSError
        return load * (os.cpu_count() or 1), 0.0, 0.0

    monkeypatch.setattr(os, "getloadavg", loads)
    assert busyness() == pytest.approx(expected)
    quiet, busy = Pace(10.0), Pace(10.0, slack=busyness())
    assert busy.search_work_s == quiet.search_work_s
    assert busy.left_s == pytest.approx(expected * quiet.left_s, rel=0.01)
