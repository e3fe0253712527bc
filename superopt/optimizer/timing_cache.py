"""Timings of earlier runs, so that a repeated run comes to the same result.

A timing counts again for the same two models on the same inputs under the same conditions: machine, provider, threads,
runtime, and length of the measurement. Where two models differ by less than a machine's noise, a second measurement
would decide at random.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeAlias

from superopt.optimizer.source import Source, model_digest
from superopt.runtime import Feeds, Target, Timing
from superopt.search import CostCache
from superopt.search.cost.measurement_key import conditions

__all__ = ["Timer", "TimingCache"]

Timer: TypeAlias = Callable[[bytes | Path, bytes | Path, Feeds, float], Timing]

_FORMAT = 1  # of the timing; a change makes old entries void
_SECONDS = ("before", "after", "ratio", "low", "high", "wall_before", "wall_after", "rounds", "seconds")


class TimingCache:
    """A `Timer` that remembers what `timer` measured, in the user's cache (at `path`, where that is given).

    `source` is the original. A remembered timing is marked as `remembered`. With `remeasure` timings are stored but not
    looked up.
    """

    def __init__(
        self, timer: Timer, target: Target, source: Source, *, remeasure: bool = False, path: Path | None = None
    ) -> None:
        self._timer, self._target, self._source = timer, target, source
        self._remeasure, self._path = remeasure, path

    def __call__(self, original: bytes | Path, candidate: bytes | Path, feeds: Feeds, budget_s: float) -> Timing:
        """The timing of the original against the candidate. Raises CannotRun, OSError."""
        models = f"{self._source.digest}>{model_digest(candidate)}({_feeds_digest(feeds)})"
        key = f"{_FORMAT}|{conditions(self._target, 0)}|model|{budget_s}|{models}"
        keys = {field: f"{key}|{field}" for field in _SECONDS}
        found: dict[str, float | None] = {}
        if not self._remeasure:
            with closing(CostCache(self._path)) as cache:
                found = {field: cache.get(keys[field]) for field in _SECONDS}
        known = {field: value for field, value in found.items() if value is not None}
        clock = "cpu" if self._target.cpu_clock else "wall"
        if len(known) == len(_SECONDS):
            rounds = int(known.pop("rounds"))
            return Timing(**known, rounds=rounds, clock=clock, remembered=True)
        begun = time.monotonic()
        timing = self._timer(original, candidate, feeds, budget_s)
        timing = replace(timing, remembered=False, seconds=time.monotonic() - begun)
        fields = asdict(timing)
        with closing(CostCache(self._path)) as cache:
            cache.put_all({keys[field]: float(fields[field]) for field in _SECONDS})
        return timing


def _feeds_digest(feeds: Feeds) -> str:
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(feeds):
        array = feeds[name]
        values = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        state.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode() + values)
    return state.hexdigest()
