"""Progress of a run as lines of text: the number of shards done, and the estimated time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from superopt.wording import counted, duration

__all__ = ["ProgressMeter"]

_MOST = 0.99  # of the work, before the last shard is done


class Sized(Protocol):
    """Something with an estimate of its work, in any unit."""

    @property
    def work(self) -> float:
        """The estimate."""


class ProgressMeter:
    """Reports progress about once a second, as a line of text."""

    def __init__(self, shards: Sequence[Sized], progress: Callable[[str], None], title: str) -> None:
        self._progress, self._title = progress, title
        self._shards, self._work = len(shards), sum(shard.work for shard in shards)
        self._old, self._old_work = 0, 0.0  # number and work of shards found in the store
        self._new, self._new_work = 0, 0.0  # number and work of shards done in this run
        self._begin = time.monotonic()
        self._shown = float("-inf")

    def present(self, shards: Iterable[Sized]) -> None:
        """Count shards whose results were found in the store."""
        for shard in shards:
            self._old += 1
            self._old_work += shard.work

    def add(self, shard: Sized) -> None:
        """Count a shard that was run."""
        self._new += 1
        self._new_work += shard.work

    def show(self, workers: int) -> None:
        """Report progress, unless a line was reported within the last second.

        The time left is estimated from the pace of this run so far, unless the work left is too little for that: many
        small shards take longer than their work says.
        """
        now = time.monotonic()
        if now - self._shown < 1.0:
            return
        self._shown = now
        elapsed = now - self._begin
        done, work = self._old + self._new, self._old_work + self._new_work
        share = work / self._work if done == self._shards else min(_MOST, work / self._work)
        parts = [f"{done} of {self._shards} done", f"{share:.0%} of the work"]
        if self._new:
            parts.append(f"{self._new / elapsed:.3g} a second")
            if share != _MOST:
                parts.append(f"{duration((self._work - work) * elapsed / self._new_work)} left")
        parts.append(f"{duration(elapsed)} so far")
        if not workers:
            parts.append("no workers yet")
        self._progress(f"{self._title}: {', '.join(parts)}")

    def end(self) -> None:
        """Report the end of the run."""
        kept = f", {self._old} of them kept" if self._old else ""
        shards = counted(self._shards, "shard")
        self._progress(f"{self._title} done: {shards}{kept} in {duration(time.monotonic() - self._begin)}")
