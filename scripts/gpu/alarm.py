"""The end of a budget of wall time in the middle of a step."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["OutOfTime", "alarm"]


class OutOfTime(BaseException):
    """The budget has ended in the middle of a step. As with Ctrl-C, whatever runs ends its processes."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in this thread after so many seconds, where the system has such alarms.

    It rings once, so as not to disturb what ends the processes. Python drops an exception that a signal raises within a
    finalizer: check the time before each step as well.
    """
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
