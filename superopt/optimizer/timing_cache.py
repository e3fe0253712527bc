"""Verdicts on speed that are remembered, so that a repeated run comes to the same one.

What an earlier run has measured counts for the very same two files on the same inputs, under the same conditions:
machine, provider, threads, runtime, and seconds that were meant for it. Where two models differ by less than a
machine's noise, a second measurement would be another throw of the dice.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeAlias

import onnx
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from superopt.runtime import Feeds, Target, Timing
from superopt.search import CostCache
from superopt.search.cost.measurement_key import conditions

__all__ = ["RememberedTimings", "Timer"]

Timer: TypeAlias = Callable[[bytes | Path, bytes | Path, Feeds, float], Timing]

_FORMAT = 1  # of the timing; a change makes old entries void
_SECONDS = ("before", "after", "ratio", "low", "high", "wall_before", "wall_after", "rounds", "seconds")
_CHUNK = 1 << 24  # bytes read at once


class RememberedTimings:
    """`timer` with a memory in the cache of costs (at `path`, where that is given); what it has from there is marked as
    `remembered`. With `anew` it remembers only."""

    def __init__(self, timer: Timer, target: Target, path: Path | None = None, anew: bool = False) -> None:
        self._timer, self._target, self._anew, self._path = timer, target, anew, path
        self._digests: dict[bytes | Path, str] = {}

    def __call__(self, original: bytes | Path, candidate: bytes | Path, feeds: Feeds, budget_s: float) -> Timing:
        """The timing of the one against the other. Raises CannotRun, OSError."""
        if original not in self._digests:
            self._digests = {original: _digest(original)}
        inputs = hashlib.blake2b(digest_size=16)
        for name in sorted(feeds):
            array = feeds[name]
            values = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
            inputs.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode() + values)
        models = f"{self._digests[original]}>{_digest(candidate)}({inputs.hexdigest()})"
        key = f"{_FORMAT}|{conditions(self._target, 0)}|model|{budget_s}|{models}"
        keys = {field: f"{key}|{field}" for field in _SECONDS}
        found: dict[str, float | None] = {}
        if not self._anew:
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


def _digest(model: bytes | Path) -> str:
    """Of a model's file and of those that hold its weights."""
    state = hashlib.blake2b(digest_size=16)
    if isinstance(model, bytes):
        state.update(model)
        return state.hexdigest()
    proto = onnx.load(model, load_external_data=False)
    tensors = (tensor for tensor in proto.graph.initializer if uses_external_data(tensor))
    parts = {ExternalDataInfo(tensor).location for tensor in tensors}
    for path in (model, *(model.parent / part for part in sorted(parts))):
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                state.update(chunk)
    return state.hexdigest()
