"""A limit of the effort of a proof that is made during a search.

The prover bounds its steps and queries, but all of them together may take minutes, in which a search stands still. The
effort is counted in calls of functions, not in seconds, so that a repeated run gives up the same proofs. Counting makes
Python take twice the time. So a proof is first tried for so short a time that it cannot exceed the limit, and only a
longer one is made again with its calls counted. What passes in the solver makes no calls, so there is a limit of CPU
time as well, which other proofs do not reach.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import verify

__all__ = ["GivenUp", "calls_within", "within_effort"]

R = TypeVar("R")

# Calls that one proof may make, for each second of the run's budget: about an eighth of a second on a CPU of 2020.
_CALLS_OF_BUDGET = 250_000
_CALLS_PER_SECOND = 10_000_000  # more than any CPU makes: 2.6 million on one of 2020
# Fewer than are made while they are counted, unless most of the time passes in the solver. A proof that is so slow is
# given up by time: one took 39 seconds for fewer than 10 million calls.
_FEWEST_CALLS_PER_SECOND = 1_000_000
_CALLS_BETWEEN_LOOKS = 1_000  # at the clock
_SHORTEST_S = 0.02  # several ticks of the timer, which is up to one late
_RETRY_S = 0.002  # between attempts to stop a proof outside the functions of the kernel
_KERNEL = str(Path(str(verify.__file__)).parent)


class GivenUp(Exception):
    """A proof takes more than the limit."""


def calls_within(budget_s: float) -> int:
    """Return the largest number of calls of a proof in a run that has `budget_s` seconds."""
    return round(_CALLS_OF_BUDGET * budget_s)


def within_effort(function: Callable[..., R], *arguments: Any, max_calls: int) -> R:
    """Return `function(*arguments)`, which asks the kernel. Raises GivenUp if it takes more than `max_calls` calls.

    The kernel keeps nothing of what it was proving then.
    """
    for limit in (_cpu_time_limit, _call_limit):
        try:
            with limit(max_calls):
                return function(*arguments)
        except _OutOfTime:
            continue
    raise AssertionError("the second limit raises GivenUp")


class _OutOfTime(Exception):
    """A proof takes longer than the calls that it may make are sure to take."""


@contextmanager
def _cpu_time_limit(max_calls: int) -> Iterator[None]:
    """Raise _OutOfTime when the process has used the CPU time in which `max_calls` calls cannot be made."""
    seconds = max_calls / _CALLS_PER_SECOND
    has_timer = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if seconds < _SHORTEST_S or not has_timer or signal.getitimer(signal.ITIMER_VIRTUAL)[0]:
        raise _OutOfTime

    def stop(_: int, frame: FrameType | None) -> None:
        # Only a function of the prover is stopped: terms, which outlive the proof, must not be left half-made.
        if frame is not None and frame.f_code.co_filename.startswith(_KERNEL):
            raise _OutOfTime

    with _dropped_by_deleted_generators(_OutOfTime, lambda: None):
        handler = signal.signal(signal.SIGVTALRM, stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _RETRY_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, handler)


@contextmanager
def _call_limit(max_calls: int) -> Iterator[None]:
    """Raise GivenUp at the first call after `max_calls` calls, or after the CPU time in which nearly all make them."""
    calls, is_over = 0, False
    end_s = time.process_time() + max_calls / _FEWEST_CALLS_PER_SECOND

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls, is_over
        if event == "call":
            calls += 1
            if calls % _CALLS_BETWEEN_LOOKS == 0:
                is_over = time.process_time() > end_s
            if (is_over or calls > max_calls) and frame.f_code.co_filename.startswith(_KERNEL):
                raise GivenUp("it takes too long to prove during a search")

    profiler = sys.getprofile()
    # Python drops the profiler together with an exception of it.
    with _dropped_by_deleted_generators(GivenUp, lambda: sys.setprofile(count)):
        sys.setprofile(count)
        try:
            yield
        finally:
            _profile_with(profiler)


def _profile_with(profiler: Any) -> None:
    """Set the profiler that `sys.getprofile` returned: that of cProfile, until Python 3.11, is no function."""
    if profiler is None or callable(profiler):
        sys.setprofile(profiler)
    else:
        profiler.enable()


@contextmanager
def _dropped_by_deleted_generators(limit: type[Exception], again: Callable[[], None]) -> Iterator[None]:
    """Call `again` in place of printing an exception that Python drops, as a generator was being deleted."""
    hook = sys.unraisablehook

    def unraisable(raised: Any) -> None:
        if raised.exc_type is limit:
            again()
        else:
            hook(raised)

    sys.unraisablehook = unraisable
    try:
        yield
    finally:
        sys.unraisablehook = hook
