"""The end of a proof: by CPU time, so that a busy machine finds the same, and by the clock in any case."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

__all__ = ["Deadline"]

_BUSY = 3.0  # times the seconds of CPU time that a proof may take by the clock


@dataclass(frozen=True)
class Deadline:
    """A time at which a proof ends: `cpu_s` of `time.process_time`, or `clock_s` of `time.monotonic` if that is first.

    The CPU time is that of this process. What runs in others is bounded by the clock.
    """

    cpu_s: float
    clock_s: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the time after so many seconds of CPU time, or thrice as many by the clock."""
        return cls(time.process_time() + seconds, time.monotonic() + _BUSY * seconds)

    @property
    def left_s(self) -> float:
        """The seconds of CPU time that are left; less if the clock leaves less."""
        return min(self.cpu_s - time.process_time(), self.clock_s - time.monotonic())

    @property
    def is_over(self) -> bool:
        """True if nothing is left."""
        return self.left_s <= 0

    def with_left(self, seconds: float) -> Deadline:
        """Return the time after so many seconds of CPU time, with the same end by the clock."""
        return replace(self, cpu_s=time.process_time() + seconds)
