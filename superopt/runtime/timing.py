"""The result of timing two models against each other, and when further measurements would not change it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from superopt.runtime.intervals import mean_interval, median_interval
from superopt.runtime.signed_rank import signed_rank_interval
from superopt.runtime.student import student_quantile

__all__ = [
    "MIN_PAIRS", "MIN_PAIRS_UNDECIDED", "Standing", "Timing", "is_clear", "is_decided", "is_far", "is_settled",
    "over_pairs", "standing",
]  # fmt: skip

MIN_PAIRS = 4  # pairs of sessions that have an interval
MIN_PAIRS_UNDECIDED = 8  # of a measurement that its ratio must not end
# It ends before its most pairs if its interval is narrow, or reaches from the ratio less than this share of the way to
# 1. As the ratio takes part in that, it is too high on average: by at most 0.1%, at normal noise of 1% or 3% in a pair
# and ratios from 1.01 to 1.5.
_CLEAR_SHARE = 0.25
# At this share it ends after `MIN_PAIRS` already. Simulated with the same noise, also with outliers, and ratios from
# 0.95 to 5, that error is at most 0.12% then, and the interval holds the ratio in 92.9% of the runs or more (93.1%).
_FAR_SHARE = 0.1
# A measurement over pairs is decided when the interval is above or below these bounds, or narrower than the width.
_CLEARLY_FASTER, _CLEARLY_SLOWER, _NARROW = 1.02, 0.99, 0.01
_CONFIDENCE = 0.95  # of the intervals
# Ratios of an interval's ends: a narrower one around 1 says that the models are as fast, one below 1 that it is slower.
_CONCLUSIVE, _CONCLUSIVE_IF_SLOWER = 1.03, 1.1


@dataclass(frozen=True)
class Timing:
    """Timing of model A (`before`) against model B (`after`).

    `before` and `after` are seconds of one run: the shortest sample or, over pairs of sessions, the median of the
    shortest samples.
    `ratio` is A's time divided by B's, over pairs their centre (see `superopt.runtime.interleaved`); above 1 model B is
    faster. `low` to `high` is its 95% confidence interval, over `pairs` pairs of sessions. All five are by `clock`,
    "cpu" or "wall"; `wall_before` and `wall_after` are by wall time.
    """

    before: float
    after: float
    ratio: float
    low: float
    high: float
    wall_before: float
    wall_after: float
    rounds: int
    clock: str
    remembered: bool = False  # measured by an earlier run
    pairs: int = 1

    @property
    def is_hurried(self) -> bool:
        """True if the accepting measurement had time for fewer pairs than usual, and its interval is wide."""
        return MIN_PAIRS <= self.pairs < MIN_PAIRS_UNDECIDED and not is_clear(self)

    @property
    def is_conclusive(self) -> bool:
        """True if the interval says that the second model is faster, or if it is narrow: noise does not decide."""
        return self.low > 1 or self.high < (_CONCLUSIVE_IF_SLOWER if self.high < 1 else _CONCLUSIVE) * self.low

    def low_at(self, confidence: float) -> float:
        """Return the lower end of the interval at another confidence."""
        return self._end_at(self.low, confidence)

    def high_at(self, confidence: float) -> float:
        """Return the upper end of the interval at another confidence."""
        return self._end_at(self.high, confidence)

    def _end_at(self, end: float, confidence: float) -> float:
        if self.pairs < MIN_PAIRS:
            return end
        wider = student_quantile(confidence, self.pairs - 1) / student_quantile(_CONFIDENCE, self.pairs - 1)
        return self.ratio * math.exp(wider * math.log(end / self.ratio))


@dataclass(frozen=True)
class Standing:
    """Result of one of several contestants.

    `timing` compares the first contestant with this one. `low` to `high` is the 95% confidence interval of this
    contestant's seconds, `timing.after`, from the order statistics of the heats.
    """

    timing: Timing
    low: float
    high: float


def over_pairs(pairs: Sequence[Timing]) -> Timing:
    """Return the timing over pairs of sessions, from that of each pair."""
    logs = [math.log(pair.ratio) for pair in pairs]
    interval = signed_rank_interval if len(logs) >= MIN_PAIRS_UNDECIDED else mean_interval
    centre, low, high = interval(logs, _CONFIDENCE)
    return Timing(
        before=statistics.median(pair.before for pair in pairs),
        after=statistics.median(pair.after for pair in pairs),
        ratio=math.exp(centre),
        low=math.exp(low),
        high=math.exp(high),
        wall_before=statistics.median(pair.wall_before for pair in pairs),
        wall_after=statistics.median(pair.wall_after for pair in pairs),
        rounds=sum(pair.rounds for pair in pairs),
        clock=pairs[0].clock,
        pairs=len(pairs),
    )


def standing(heats: Sequence[Timing]) -> Standing:
    """Return the result of a contestant, from its timing in each heat."""
    return Standing(over_pairs(heats), *median_interval([heat.after for heat in heats]))


def is_decided(timing: Timing) -> bool:
    """Return True if more pairs would not change the decision."""
    return timing.low > _CLEARLY_FASTER or timing.high < _CLEARLY_SLOWER or timing.high - timing.low < _NARROW


def is_clear(timing: Timing) -> bool:
    """Return True if the interval is narrow, or so for a ratio this far from 1."""
    half_width, distance = _half_width_and_distance(timing)
    return half_width < max(_NARROW / 2, _CLEAR_SHARE * distance)


def is_far(timing: Timing) -> bool:
    """Return True if the ratio is so far from 1 that few pairs are enough."""
    half_width, distance = _half_width_and_distance(timing)
    return half_width < _FAR_SHARE * distance


def _half_width_and_distance(timing: Timing) -> tuple[float, float]:
    """Return logarithms: of the interval's larger half, and of the ratio, without its sign."""
    return math.log(max(timing.high / timing.ratio, timing.ratio / timing.low)), abs(math.log(timing.ratio))


def is_settled(ratios: list[float]) -> bool:
    """Return True if more rounds are useless: the interval is narrow, and very narrow if it is close to 1."""
    low, high = median_interval(ratios)
    close = low < 1.01 and high > 0.99
    return high - low < (0.004 if close else 0.01) * high
