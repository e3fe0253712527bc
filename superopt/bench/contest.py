"""The benchmark of one model: each contestant optimizes it; the results are compared with the original and timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from superopt.bench.contestants import Contestant
from superopt.bench.engines import time_engines
from superopt.bench.processes import Failed, call
from superopt.bench.result import Contest, EngineSpeed, Row
from superopt.optimizer import Options
from superopt.optimizer.files import count_operators
from superopt.optimizer.source import Source
from superopt.optimizer.validator import Validator
from superopt.runtime import (
    CannotRun,
    Feeds,
    Standing,
    Target,
    Unfeedable,
    compare,
    in_child,
    input_specs,
    open_session,
    worst_of,
)

__all__ = ["BASELINE", "BenchmarkSettings", "Progress", "contest"]

Progress = Callable[[str], None]

BASELINE = "ONNX Runtime"
_OTHER_SEED = 12345  # added to the optimizer's seed: results are compared on inputs that no optimizer has seen
_SAMPLES = 2
# Limit of the wall time of a measurement, in seconds and as a multiple of the seconds that are asked for.
_LIMIT_SECONDS, _LIMIT_FACTOR = 600.0, 20.0
_SAMPLE_S = 0.05  # long enough to replace the previous contestant's weights in the caches


@dataclass(frozen=True)
class BenchmarkSettings:
    """Settings of a benchmark.

    `target` is superopt's target; CPU time is measured there. `threads` is for wall time (0: ONNX Runtime's
    choice). `measure_s` is in seconds for each contestant and clock; `timeout_s` bounds each optimizer and each first
    run. `ours` has further keyword arguments for `superopt.optimize`.
    """

    target: Target = field(default_factory=Target)
    threads: int = 0
    seed: int = 0
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    measure_s: float = 5.0
    timeout_s: float = 900.0
    ours: Mapping[str, Any] = field(default_factory=dict)

    @property
    def clocks(self) -> dict[str, tuple[str, Target]]:
        """The clocks: name -> (title, target). CPU time is left out on a GPU, where it means nothing."""
        wall = replace(self.target, threads=self.threads)
        if self.target.provider != "cpu":
            return {"wall": (f"wall time on {self.target.provider}", wall)}
        threads = f"{self.threads} threads" if self.threads > 1 else "1 thread" if self.threads else "all threads"
        return {"cpu": ("CPU time, 1 thread", self.target), "wall": (f"wall time, {threads}", wall)}


@dataclass(frozen=True)
class _Entrant:
    """A contestant's row so far, the engine that runs its result, and the file of that result."""

    row: Row
    engine: str
    path: Path


def contest(
    model: Path,
    label: str,
    folder: Path,
    contestants: Sequence[Contestant],
    options: BenchmarkSettings,
    progress: Progress,
) -> Contest:
    """Run all contestants on `model`, shown as `label`; they write to `folder`. Raises InputError."""
    progress(f"{label}: running the original")
    source = Source(model)
    try:
        inputs = {spec.name for spec in input_specs(source.proto)}
        shapes = {name: shape for name, shape in options.shapes.items() if name in inputs}
        drawn = Options(seed=options.seed + _OTHER_SEED, shapes=shapes, samples=_SAMPLES)
        validator = Validator(source, options.target, drawn, thorough=False)
        session = open_session(model, options.target.in_float32)
        expected = [session.run(feeds) for feeds in validator.feeds]
        del session
    except (CannotRun, Unfeedable) as error:
        return Contest(label, problem=f"the original cannot be run here: {error}")
    settings = {"ep": options.target.provider, "threads": options.target.threads, "seed": options.seed}
    settings |= {"shapes": shapes, **options.ours}
    targets = [target for _, target in options.clocks.values()]
    entrants = [_Entrant(Row(BASELINE, "baseline", operators=_operators(model)), BASELINE, model)]
    for contestant in contestants:
        is_control = contestant.kind == "control"
        step = "saving a copy, to see the noise" if is_control else f"optimizing by {contestant.name}"
        progress(f"{label}: {step}")
        entrant = _optimized(contestant, model, folder, settings, options.timeout_s)
        if entrant.row.status == "ok":
            progress(f"{label}: running the " + ("copy" if is_control else f"result of {contestant.name}"))
            entrant = replace(entrant, row=_compared(entrant, targets, validator, expected, options.timeout_s))
        entrants.append(entrant)
    speeds: dict[str, dict[str, EngineSpeed]] = {}
    problem = None
    try:
        timed = [entrant for entrant in entrants if entrant.row.status == "ok"]
        for clock, (title, target) in options.clocks.items():
            progress(f"{label}: measuring {title}")
            # A different order on every model, so that no contestant always follows the same one.
            order = f"{options.seed} {label} {clock}"
            found = _timed(timed, target, validator.feeds[0], clock == "cpu", options.measure_s * len(timed), order)
            for entrant, speed in zip(timed, found, strict=True):
                speeds.setdefault(entrant.row.contestant, {})[clock] = speed
    except CannotRun as error:
        problem = f"could not be timed: {error}"
    rows = [replace(entrant.row, speeds=speeds.get(entrant.row.contestant, {})) for entrant in entrants]
    return Contest(label, rows, validator.notices, problem)


def _optimized(
    contestant: Contestant, model: Path, folder: Path, settings: Mapping[str, Any], timeout_s: float
) -> _Entrant:
    """Run the optimizer in its own process; return its entry with the model that it wrote or its failure."""
    path = folder / f"{contestant.name.replace(' ', '_')}.onnx"
    row = Row(contestant.name, contestant.kind)
    try:
        reply = call(contestant.optimizer, (model.absolute(), path.absolute(), settings), timeout_s)
    except Failed as failed:
        return _Entrant(replace(row, status="failed", note=str(failed)), contestant.engine, path)
    peak = None if reply.peak_bytes is None else reply.peak_bytes / 2**20
    row = replace(row, note=str(reply.value), seconds=reply.seconds, peak_mb=peak)
    if contestant.kind == "engine":
        return _Entrant(row, contestant.engine, model)
    try:
        row = replace(row, operators=_operators(path))
    except (OSError, DecodeError):
        row = replace(row, status="failed", note="wrote no model")
    return _Entrant(row, contestant.engine, path)


def _compared(
    entrant: _Entrant, targets: Sequence[Target], validator: Validator, expected: Sequence[list[Any]], timeout_s: float
) -> Row:
    """Run the entrant's model on the validator's inputs; return its row with the comparison to the original."""
    arguments = (entrant.engine, entrant.path.absolute(), targets, validator.feeds)
    try:
        reply = call("superopt.bench.engines:outputs", arguments, timeout_s)
    except Failed as failed:
        return replace(entrant.row, status="failed", note=f"does not run: {failed}")
    pairs = [pair for outputs in reply.value for pair in zip(expected, outputs, strict=True)]
    tolerance = validator.tolerance.in_tf32 if targets[0].rounds_operands else validator.tolerance
    worst = worst_of([compare(original, result, tolerance) for original, result in pairs])
    relative = worst.relative if math.isfinite(worst.relative) else None
    row = replace(entrant.row, relative=relative, tolerance=worst.tolerance)
    return row if worst.problem is None else replace(row, status="wrong", note=worst.problem)


def _timed(
    entrants: Sequence[_Entrant], target: Target, feeds: Feeds, cpu_clock: bool, budget_s: float, seed: str
) -> list[EngineSpeed]:
    """Time all entrants against the first, in the child process. Raises CannotRun."""
    timed = [(entrant.engine, entrant.path.absolute()) for entrant in entrants]
    limit_s = _LIMIT_SECONDS + _LIMIT_FACTOR * budget_s
    standings = in_child(time_engines, timed, target, feeds, cpu_clock, budget_s, seed, _SAMPLE_S, limit_s=limit_s)
    return [_speed(standing) for standing in standings]


def _speed(standing: Standing) -> EngineSpeed:
    t = standing.timing
    return EngineSpeed(t.after * 1e3, standing.low * 1e3, standing.high * 1e3, t.ratio, t.low, t.high, t.rounds)


def _operators(path: Path) -> int:
    return sum(count_operators(onnx.load(path, load_external_data=False)).values())
