"""Timings of earlier runs, so that a repeated run has the same result.

A timing is reused for the same two models on the same inputs under the same conditions: machine, provider, threads and
runtime. One that noise has spoilt is not kept: it says nothing, so a later run measures anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from superopt.optimizer.model_timer import InputsTimer
from superopt.optimizer.source import Source, model_digest
from superopt.runtime import Feeds, Target, Timing
from superopt.search.cost.measurement_key import conditions
from superopt.store import ModelTiming, ModelTimingKey, ResultStore

__all__ = ["TimingCache", "feeds_digest"]


class TimingCache:
    """An `InputsTimer` that keeps the measurements of `timer` in `store`.

    `source` is the original. `purpose` is "choice" or "acceptance": what is remembered for one does not serve the
    other. A timing of an earlier run is marked as `remembered`. With `remeasure`, timings are stored but not looked up.
    """

    def __init__(
        self,
        timer: InputsTimer,
        target: Target,
        source: Source,
        store: ResultStore,
        purpose: str,
        *,
        remeasure: bool = False,
    ) -> None:
        self._timer, self._target, self._source, self._purpose = timer, target, source, purpose
        self._store, self._remeasure = store, remeasure

    def __call__(
        self, original: bytes | Path, candidate: bytes | Path, inputs: Sequence[Feeds], budget_s: float
    ) -> list[Timing]:
        """Return the timings of the original against the candidate, one for each input. Raises CannotRun, OSError."""
        keys = self._keys(candidate, inputs)
        if known := self._timings(keys):
            return known
        timings = [replace(t, remembered=False) for t in self._timer(original, candidate, inputs, budget_s)]
        for key, timing in zip(keys, timings, strict=True):
            if not timing.is_conclusive:
                continue
            fields = asdict(timing)
            self._store.model_timings.put(key, ModelTiming(*(fields[name] for name in ModelTiming._fields)))
        return timings

    def known(self, candidate: bytes | Path, inputs: Sequence[Feeds]) -> list[Timing]:
        """Return the timings of earlier runs, one for each input, or none if one of them is missing."""
        return self._timings(self._keys(candidate, inputs))

    def _timings(self, keys: Sequence[ModelTimingKey]) -> list[Timing]:
        rows = [] if self._remeasure else [row for key in keys if (row := self._store.model_timings.get(key))]
        if len(rows) < len(keys):
            return []
        return [Timing(**row._asdict(), clock=self._target.clock, remembered=True) for row in rows]

    def _keys(self, candidate: bytes | Path, inputs: Sequence[Feeds]) -> list[ModelTimingKey]:
        models = conditions(self._target, 0), self._source.digest, model_digest(candidate)
        return [ModelTimingKey(*models, feeds_digest(feeds), self._purpose) for feeds in inputs]


def feeds_digest(feeds: Feeds) -> str:
    """Return a hash of the names, types, shapes and values of inputs."""
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(feeds):
        array = feeds[name]
        values = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        state.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode() + values)
    return state.hexdigest()
