"""When the machine counts as quiet, and what measuring makes of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from superopt.runtime import time_interleaved
from superopt.runtime import timing as timing_module
from superopt.runtime.quiet import Quiet, is_quiet


class Clock:
    """Seconds that pass only where somebody says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def process_time(self) -> float:
        return self.now

    perf_counter = process_time


def test_it_is_quiet_where_work_takes_its_least_time() -> None:
    clock, durations = Clock(), iter([*[1.0] * 50, 1.05, 1.2, 0.5, 1.0, 0.54])

    def work() -> None:
        clock.now += next(durations)

    quiet = Quiet(work, clock.process_time)
    assert [quiet() for _ in range(5)] == [True, False, True, False, True]
    assert is_quiet() in (True, False)


@pytest.mark.parametrize("ends", [True, False])
def test_more_rounds_where_it_is_not_quiet(monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """For the first 15 seconds B alone is slow. That ends, or it is not waited for much longer."""
    clock = Clock()
    monkeypatch.setattr(timing_module, "time", clock)

    def quiet() -> bool:
        return ends and clock.now > 15.0

    def turns() -> Iterator[float]:
        while True:
            yield 1.0 if quiet() else 3.0

    slow = turns()

    def before() -> None:
        clock.now += 1.0

    def after() -> None:
        clock.now += next(slow)

    timing = time_interleaved(before, after, budget_s=10.0, cpu_clock=True, least=1, quiet=quiet)
    assert timing.ratio == pytest.approx(1.0 if ends else 1 / 3)
    assert clock.now < 45.0
