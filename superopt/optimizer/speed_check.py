"""The speed of a candidate: estimated to choose among candidates, then measured anew to accept and report the choice.

The fastest of several candidates is also the luckiest, so the measurement by which it was chosen says too much. A
candidate is accepted by a later measurement, with fresh sessions, that no choice depends on. (There is no time to
estimate a large model; its candidates are taken in the order of the search.) If several candidates are tried, each try
is one more chance to pass by luck: the k-th try has to pass at the error probability 0.05 / k^2, which keeps the
probability that any of them errs below 0.09.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from superopt.optimizer.model_timer import InputsTimer, Timers
from superopt.optimizer.pace import Pace
from superopt.optimizer.result import Latency, LatencyAtSize
from superopt.optimizer.validator import Validator
from superopt.runtime import InputShapes, Timing, show_shape

__all__ = ["Speed", "SpeedCheck", "TooSlow"]

# A candidate is refused if the interval of its speed-up at any size reaches below this bound, even if the speed-up over
# all sizes is at least 1.
_MIN_INTERVAL_LOW = 0.98
_ERROR_PROBABILITY = 0.05


@dataclass(frozen=True)
class Speed:
    """Timings of the original against a candidate, one for each size in `shapes`."""

    shapes: list[InputShapes]
    timings: list[Timing]

    @property
    def ratio(self) -> float:
        """The geometric mean over the sizes of the original's latency divided by the candidate's."""
        return _mean([timing.ratio for timing in self.timings])

    def low_at(self, confidence: float) -> float:
        """Return the lower end of the interval of `ratio`; the errors at different sizes are independent."""
        return self.ratio / _spread(self.timings, lambda timing: timing.ratio / timing.low_at(confidence))

    @property
    def refusal(self) -> str:
        """The reason for which a candidate of this speed is not accepted, in a few words."""
        if not all(timing.is_conclusive for timing in self.timings):
            return "too noisy to tell if the result is faster"
        return "slower" if any(timing.high < 1 for timing in self.timings) else "not surely faster"

    @property
    def overall(self) -> Latency:
        """The geometric mean over the sizes of all latencies."""
        t = self.timings
        return Latency(
            _mean([one.before for one in t]) * 1e3,
            _mean([one.after for one in t]) * 1e3,
            self.ratio,
            self.ratio / _spread(t, lambda timing: timing.ratio / timing.low),
            self.ratio * _spread(t, lambda timing: timing.high / timing.ratio),
            _mean([one.wall_before for one in t]) * 1e3,
            _mean([one.wall_after for one in t]) * 1e3,
            sum(one.rounds for one in t),
            t[0].clock,
            all(one.remembered for one in t),
            [
                LatencyAtSize(dict(shapes), one.before * 1e3, one.after * 1e3, one.ratio, one.low, one.high)
                for shapes, one in zip(self.shapes, t, strict=True)
            ],
            min(one.pairs for one in t) if any(one.is_hurried for one in t) else None,
        )


class TooSlow(Exception):
    """A candidate is not accepted; the message says why. `latency` is what was measured."""

    def __init__(self, message: str, latency: Latency) -> None:
        super().__init__(message)
        self.latency = latency


class SpeedCheck:
    """Measures the candidates of one run against the original, in the time that `pace` gives.

    `tries` counts the measurements by which a candidate was to be accepted.
    """

    def __init__(self, validator: Validator, timers: Timers, pace: Pace) -> None:
        self._validator, self._timers, self._pace = validator, timers, pace
        self.tries = 0

    def require_not_known_slower(self, candidate: bytes | Path) -> None:
        """Raise TooSlow if an earlier run has measured that a candidate is slower at some size. Nothing is measured."""
        if timings := self._timers.known(candidate, self._validator.timed):
            self._require_not_slower(Speed(self._validator.shapes, timings))

    def estimate(self, candidate: bytes | Path) -> Speed:
        """Measure a candidate, to compare it with others. Raises TooSlow if it is slower at some size, CannotRun."""
        speed = self._measure(candidate, self._timers.choice, self._pace.choice_s)
        self._require_not_slower(speed)
        return speed

    def accept(self, candidate: bytes | Path, *, is_smaller: bool, only_folded: bool) -> Speed:
        """Measure the candidate that was chosen, and return the speed to report.

        Raises TooSlow unless the candidate is faster, or not slower and smaller, and not slower at any size; CannotRun.
        One that was `only_folded` is wanted for its own sake: it only must not be measurably slower.
        """
        speed = self._measure(candidate, self._timers.acceptance, self._pace.acceptance_s)
        self.tries += 1
        confidence = 1 - _ERROR_PROBABILITY / self.tries**2
        self._require_not_slower(speed)
        overall, low = speed.overall, speed.low_at(confidence)
        measured = _show(overall.ratio, overall.low, overall.high)
        if only_folded and is_smaller and all(timing.high >= 1 for timing in speed.timings):
            return speed
        if speed.ratio < 1 or min(timing.low_at(confidence) for timing in speed.timings) < _MIN_INTERVAL_LOW:
            worst = min(zip(speed.timings, speed.shapes, strict=True), key=lambda one: one[0].low_at(confidence))
            where = "" if len(speed.timings) == 1 else f"; {_at(*worst)}"
            raise TooSlow(f"{speed.refusal}: {measured}{where}", overall)
        if low <= 1 and not is_smaller:
            raise TooSlow(f"{speed.refusal}, and no smaller: {measured}", overall)
        return speed

    def _measure(self, candidate: bytes | Path, timer: InputsTimer, seconds: float) -> Speed:
        return Speed(self._validator.shapes, self._validator.time(candidate, timer, seconds))

    def _require_not_slower(self, speed: Speed) -> None:
        # Several sizes are as many chances that a timing looks slower by noise.
        confidence = 1 - _ERROR_PROBABILITY / len(speed.timings)
        for timing, shapes in zip(speed.timings, speed.shapes, strict=True):
            if timing.high_at(confidence) < 1:
                where = _show(timing.ratio, timing.low, timing.high) if len(speed.timings) == 1 else _at(timing, shapes)
                raise TooSlow(f"slower: {where}", speed.overall)


def _mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def _spread(timings: Sequence[Timing], factor: Callable[[Timing], float]) -> float:
    """Return the factor of the geometric mean's interval, from those of independent timings."""
    return math.exp(math.sqrt(sum(math.log(factor(timing)) ** 2 for timing in timings)) / len(timings))


def _show(ratio: float, low: float, high: float) -> str:
    return f"{ratio:.3f} ({low:.3f} to {high:.3f})"


def _at(timing: Timing, shapes: InputShapes) -> str:
    sizes = ", ".join(f"{name}={show_shape(shape)}" for name, shape in shapes.items())
    return f"{_show(timing.ratio, timing.low, timing.high)} at {sizes}"
