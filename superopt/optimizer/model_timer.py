"""Measurement of one model against another in ONNX Runtime, interleaved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from superopt.runtime import Feeds, Target, Timing, time_over_inputs

__all__ = ["InputsTimer", "KnownTimings", "Timer", "Timers", "each_alone", "interleaved_timer"]

# (original, candidate, inputs, seconds to measure) -> timing
Timer: TypeAlias = Callable[[bytes | Path, bytes | Path, Feeds, float], Timing]
# The same on several inputs (one for each size), with one timing for each: sessions of large models are slow to open.
InputsTimer: TypeAlias = Callable[[bytes | Path, bytes | Path, Sequence[Feeds], float], list[Timing]]
# (candidate, inputs) -> the timings of an earlier run; none if it has not measured all of them.
KnownTimings: TypeAlias = Callable[[bytes | Path, Sequence[Feeds]], list[Timing]]

# If the weights of both models do not fit into the caches together, the first runs after a switch of models read them
# from memory. A deployed model does not alternate with another one, so samples are long enough to hide this effect.
_SAMPLE_SECONDS = 0.05


@dataclass(frozen=True)
class Timers:
    """The timers of a run.

    `choice` compares candidates with one another. The fastest of several candidates is the luckiest one as well, so
    its ratio there is too high. `acceptance` measures the chosen candidate anew, to be accepted and reported. `known`
    has the timings by which earlier runs compared candidates.
    """

    choice: InputsTimer
    acceptance: InputsTimer
    known: KnownTimings = lambda candidate, inputs: []


def each_alone(timer: Timer) -> InputsTimer:
    """Return the timer that calls `timer` for each of the inputs."""

    def timed(
        original: bytes | Path, candidate: bytes | Path, inputs: Sequence[Feeds], budget_s: float
    ) -> list[Timing]:
        return [timer(original, candidate, feeds, budget_s / len(inputs)) for feeds in inputs]

    return timed


def interleaved_timer(target: Target, *, until_decided: bool = True, apart: bool = False) -> InputsTimer:
    """Return a timer that runs fresh sessions of both models on `target` in turns. It raises CannotRun.

    `until_decided` and `apart` are described at `time_models`.
    """
    return partial(_time_interleaved, target, until_decided, apart)


def _time_interleaved(
    target: Target,
    until_decided: bool,
    apart: bool,
    original: bytes | Path,
    candidate: bytes | Path,
    inputs: Sequence[Feeds],
    budget_s: float,
) -> list[Timing]:
    return time_over_inputs(
        original,
        candidate,
        inputs,
        target,
        budget_s=budget_s,
        sample_s=_SAMPLE_SECONDS,
        until_decided=until_decided,
        apart=apart,
    )
