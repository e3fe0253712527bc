"""Tests of the fuzzer's workers (scripts/fuzzing/workers.py)."""

from __future__ import annotations

import mmap
import os
import signal

from scripts.fuzzing.workers import GIB, Ended, OriginalCrashed, results, runs_original

_KEPT: list[mmap.mmap] = []  # in a child


def _process(task: int) -> int:
    return os.getpid()


def _keeping(task: int) -> int:
    _KEPT.append(mmap.mmap(-1, GIB))  # addresses only: nothing is written
    return os.getpid()


def _crashing(task: int) -> int:
    with runs_original():
        if task == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    if task == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def _failing(task: int) -> int:
    if task == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if task == 2:
        raise ValueError("no")
    return task


def test_tasks_run_in_one_fork_after_the_other() -> None:
    found = dict(results(_process, iter(range(4)), 1, 60.0))
    assert sorted(found) == [0, 1, 2, 3]
    assert len(set(found.values())) == 1 and os.getpid() not in found.values()


def test_a_fork_that_keeps_too_much_is_replaced() -> None:
    found = dict(results(_keeping, iter(range(6)), 1, 60.0))
    assert all(isinstance(process, int) for process in found.values())
    assert len(set(found.values())) == 3  # two tasks in each


def test_a_crash_and_an_error_cost_one_task() -> None:
    found = dict(results(_failing, iter(range(4)), 2, 60.0))
    assert (found[0], found[3]) == (0, 3)
    assert str(found[1]) == "crash: SIGKILL"
    assert isinstance(found[2], Ended) and str(found[2]).startswith("ValueError: no (")


def test_a_crash_on_the_original_is_told_apart() -> None:
    found = dict(results(_crashing, iter(range(4)), 2, 60.0))
    assert isinstance(found[1], OriginalCrashed) and not isinstance(found[2], OriginalCrashed)
    assert str(found[1]) == str(found[2]) == "crash: SIGKILL"
