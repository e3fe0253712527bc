"""The end of a proof on a machine that has other things to do, and on one that stands still."""

from __future__ import annotations

import pytest

from superopt.check.deadline import Deadline


class Times:
    """The times that a process sees, set by a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cpu, self.clock = 100.0, 5000.0
        monkeypatch.setattr("superopt.check.deadline.time.process_time", lambda: self.cpu)
        monkeypatch.setattr("superopt.check.deadline.time.monotonic", lambda: self.clock)

    def run(self, cpu: float, clock: float) -> None:
        self.cpu, self.clock = self.cpu + cpu, self.clock + clock


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    return Times(monkeypatch)


def test_other_processes_take_no_time(times: Times) -> None:
    deadline = Deadline.after(10)
    times.run(cpu=4, clock=11)
    assert deadline.left_s == 6 and not deadline.is_over
    times.run(cpu=6, clock=6)
    assert deadline.is_over


def test_the_clock_ends_it_in_any_case(times: Times) -> None:
    deadline = Deadline.after(10)
    times.run(cpu=1, clock=28)
    assert deadline.left_s == 2
    times.run(cpu=0, clock=2)
    assert deadline.is_over


def test_more_time_does_not_move_the_end_by_the_clock(times: Times) -> None:
    deadline = Deadline.after(10).with_left(100)
    assert deadline.left_s == 30
    times.run(cpu=0, clock=30)
    assert deadline.is_over and deadline.with_left(5).is_over
