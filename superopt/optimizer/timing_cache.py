"""Timings of earlier runs, so that a repeated run has the same result.

A timing is reused for the same two models on the same inputs under the same conditions: machine, provider, threads,
runtime, and length of the measurement. If two models differ by less than the noise, a second measurement would decide
at random.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, replace
from pathlib import Path

from superopt.optimizer.model_timer import Timer
from superopt.optimizer.source import Source, model_digest
from superopt.runtime import Feeds, Target, Timing
from superopt.search.cost.measurement_key import conditions
from superopt.store import ModelTiming, ModelTimingKey, ResultStore

__all__ = ["TimingCache"]


class TimingCache:
    """A `Timer` that keeps the measurements of `timer` in `store`.

    `source` is the original. `purpose` is "choice" or "acceptance": what is remembered for one does not serve the
    other. A timing of an earlier run is marked as `remembered`. With `remeasure`, timings are stored but not looked up.
    """

    def __init__(
        self,
        timer: Timer,
        target: Target,
        source: Source,
        store: ResultStore,
        purpose: str,
        *,
        remeasure: bool = False,
    ) -> None:
        self._timer, self._target, self._source, self._purpose = timer, target, source, purpose
        self._store, self._remeasure = store, remeasure

    def __call__(self, original: bytes | Path, candidate: bytes | Path, feeds: Feeds, budget_s: float) -> Timing:
        """Return the timing of the original against the candidate. Raises CannotRun, OSError."""
        digests = (self._source.digest, model_digest(candidate), _feeds_digest(feeds))
        key = ModelTimingKey(conditions(self._target, 0), *digests, budget_s, self._purpose)
        row = None if self._remeasure else self._store.model_timings.get(key)
        if row is not None:
            return Timing(**row._asdict(), clock=self._target.clock, remembered=True)
        begun = time.monotonic()
        timing = self._timer(original, candidate, feeds, budget_s)
        timing = replace(timing, remembered=False, seconds=time.monotonic() - begun)
        fields = asdict(timing)
        self._store.model_timings.put(key, ModelTiming(*(fields[name] for name in ModelTiming._fields)))
        return timing


def _feeds_digest(feeds: Feeds) -> str:
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(feeds):
        array = feeds[name]
        values = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        state.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode() + values)
    return state.hexdigest()
