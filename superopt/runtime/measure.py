"""Timings of models in the child process. The whole measuring loop runs there, so no timing includes a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from superopt.runtime import engine, reference
from superopt.runtime.feeds import Feeds
from superopt.runtime.sessions import RunnableModel, close_unused, in_child, loadable
from superopt.runtime.target import Target
from superopt.runtime.timing import Timing

__all__ = ["TimedModel", "reference_time", "sample_times", "time_over_inputs", "time_pair"]

# Limit of the wall time of a measurement: sessions of large models take long to open, and runs may be longer than the
# seconds that are asked for.
_LIMIT_SECONDS, _LIMIT_FACTOR = 600.0, 20.0
_SAMPLES_LIMIT_SECONDS = 60.0  # for samples of single operators


class TimedModel(NamedTuple):
    """A model and the inputs that it is timed on."""

    model: RunnableModel
    feeds: Feeds


def time_pair(
    before: TimedModel,
    after: TimedModel,
    target: Target,
    *,
    budget_s: float,
    sample_s: float,
) -> Timing:
    """Time two models against each other, each on its own inputs (`time_over_inputs`). Raises CannotRun."""
    inputs = [before.feeds], [after.feeds]
    (timing,) = _time(before.model, after.model, inputs, target, budget_s, sample_s)
    return timing


def time_over_inputs(
    before: RunnableModel,
    after: RunnableModel,
    inputs: Sequence[Feeds],
    target: Target,
    *,
    budget_s: float,
    sample_s: float,
    until_decided: bool = True,
    apart: bool = False,
) -> list[Timing]:
    """Time two models against each other in fresh pairs of sessions, in about `budget_s` seconds (`time_models`).

    Each pair runs all `inputs`; the result has one timing for each. A sample takes `sample_s` seconds or more. With
    `apart`, one session is open at a time. A model runs with ONNX Runtime's optimizations if it loads with them. Raises
    CannotRun.
    """
    return _time(before, after, (inputs, inputs), target, budget_s, sample_s, until_decided, apart)


def _time(
    before: RunnableModel,
    after: RunnableModel,
    inputs: tuple[Sequence[Feeds], Sequence[Feeds]],
    target: Target,
    budget_s: float,
    sample_s: float,
    until_decided: bool = True,
    apart: bool = False,
) -> list[Timing]:
    close_unused()  # their memory would be needed twice
    with loadable(before, target, "any") as first, loadable(after, target, "any") as second:
        return in_child(
            engine.time_pair,
            (first, inputs[0]),
            (second, inputs[1]),
            budget_s,
            target.cpu_clock,
            sample_s,
            until_decided,
            apart,
            limit_s=_LIMIT_SECONDS + _LIMIT_FACTOR * budget_s,
        )


def sample_times(
    models: Sequence[TimedModel], target: Target, count: int, sample_s: float
) -> list[list[tuple[float, float]]]:
    """Return `count` samples of each model: (seconds of a run, seconds of the reference computation at that time).

    The models run in turns in one process. Seconds are CPU time if `target.cpu_clock`. Otherwise they are wall time,
    and those of the reference are 0. Raises CannotRun.
    """
    with ExitStack() as files:
        runnable = [(files.enter_context(loadable(model.model, target)), model.feeds) for model in models]
        arguments = (runnable, count, sample_s, target.cpu_clock)
        return in_child(reference.sample_runs, *arguments, limit_s=_SAMPLES_LIMIT_SECONDS)


def reference_time(count: int) -> float:
    """Return the least CPU seconds of `count` runs of the reference computation. Raises CannotRun."""
    return in_child(reference.least_reference_seconds, count, limit_s=_SAMPLES_LIMIT_SECONDS)
