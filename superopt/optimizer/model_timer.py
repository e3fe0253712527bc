"""Measurement of one model against another in ONNX Runtime, interleaved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from superopt.runtime import Feeds, Target, TimedModel, Timing, time_pair

__all__ = ["Timer", "Timers", "interleaved_timer"]

# (original, candidate, inputs, seconds to measure) -> timing
Timer: TypeAlias = Callable[[bytes | Path, bytes | Path, Feeds, float], Timing]

# If the weights of both models do not fit into the caches together, the first runs after a switch of models read them
# from memory. A deployed model does not alternate with another one, so samples are long enough to hide this effect.
_SAMPLE_SECONDS = 0.05


@dataclass(frozen=True)
class Timers:
    """The timers of a run.

    `choice` compares candidates with one another. The fastest of several candidates is the luckiest one as well, so
    its ratio there is too high. `acceptance` measures the chosen candidate anew, to be accepted and reported.
    """

    choice: Timer
    acceptance: Timer


def interleaved_timer(target: Target, *, until_decided: bool = True, apart: bool = False) -> Timer:
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
    feeds: Feeds,
    budget_s: float,
) -> Timing:
    return time_pair(
        TimedModel(original, feeds),
        TimedModel(candidate, feeds),
        target,
        budget_s=budget_s,
        sample_s=_SAMPLE_SECONDS,
        until_decided=until_decided,
        apart=apart,
    )
