"""The ratio that is reported is not the luckiest of several: what others measure agrees with it on average."""

from __future__ import annotations

import math
import random
import statistics
from types import SimpleNamespace

import pytest

from superopt.optimizer.model_timer import Timers, each_alone
from superopt.optimizer.pace import Pace
from superopt.optimizer.speed_check import SpeedCheck, TooSlow
from superopt.runtime import Feeds, Timing
from superopt.runtime.student import student_quantile

PAIRS = 8


class NoisyTimer:
    """Measures candidates of known ratio (their name is the ratio) with normal noise in each pair of sessions."""

    def __init__(self, seed: int, noise: float) -> None:
        self.rng, self.noise = random.Random(seed), noise

    def __call__(self, original: object, candidate: bytes, feeds: Feeds, budget_s: float) -> Timing:
        logs = [math.log(float(candidate)) + self.rng.gauss(0, self.noise) for _ in range(PAIRS)]
        mean = statistics.fmean(logs)
        half = student_quantile(0.95, PAIRS - 1) * statistics.stdev(logs) / math.sqrt(PAIRS)
        ratio, low, high = (math.exp(mean + shift) for shift in (0, -half, half))
        return Timing(ratio, 1.0, ratio, low, high, ratio, 1.0, PAIRS, "cpu", pairs=PAIRS)


def run(seed: int, ratios: list[float], noise: float = 0.01, sizes: int = 1) -> tuple[float, float] | None:
    """Choose the fastest candidates by estimates and accept the first that passes: (reported ratio, true ratio)."""
    timer = NoisyTimer(seed, noise)
    shapes = [{"x": (size,)} for size in range(sizes)]
    validator = SimpleNamespace(shapes=shapes, time=lambda c, t, s: t("original", c, [{} for _ in shapes], s))
    check = SpeedCheck(validator, Timers(each_alone(timer), each_alone(timer)), Pace(60.0))  # type: ignore[arg-type]
    estimates: list[tuple[float, bytes]] = []
    for ratio in ratios:
        candidate = str(ratio).encode()
        try:
            estimates.append((check.estimate(candidate).ratio, candidate))  # type: ignore[arg-type]
        except TooSlow:
            continue
    for _, candidate in sorted(estimates, reverse=True):
        try:
            return check.accept(candidate, is_smaller=False, only_folded=False).ratio, float(candidate)
        except TooSlow:
            continue
    return None


def reported(ratios: list[float], runs: int = 2000, sizes: int = 1) -> list[tuple[float, float]]:
    found = (run(seed, ratios, sizes=sizes) for seed in range(runs))
    return [one for one in found if one is not None]


@pytest.mark.parametrize("sizes", [1, 3])
def test_candidates_without_a_gain_are_rarely_accepted(sizes: int) -> None:
    accepted = reported([1.0] * 8, sizes=sizes)
    assert len(accepted) < 0.05 * 2000
    assert statistics.geometric_mean(ratio for ratio, _ in accepted) < 1.02


def test_the_ratio_of_the_luckiest_is_not_reported() -> None:
    """Eight candidates of which each is a little faster: the estimate of the best is too high, the report is not."""
    accepted = reported([1.03] * 8)
    assert len(accepted) > 0.9 * 2000
    assert statistics.geometric_mean(ratio / true for ratio, true in accepted) == pytest.approx(1.0, abs=0.001)
    estimates = [max(NoisyTimer(seed, 0.01)("", b"1.03", {}, 1).ratio for seed in range(k, k + 8)) for k in range(500)]
    assert statistics.geometric_mean(estimates) > 1.03 * 1.004


def test_each_further_try_is_stricter() -> None:
    def timer(original: object, candidate: bytes, feeds: Feeds, budget_s: float) -> Timing:
        low = float(candidate)
        return Timing(1.05, 1.0, 1.05, low, 1.05**2 / low, 1.05, 1.0, PAIRS, "cpu", pairs=PAIRS)

    validator = SimpleNamespace(shapes=[{}], time=lambda c, t, s: [t("original", c, {}, s)])
    check = SpeedCheck(validator, Timers(timer, timer), Pace(60.0))  # type: ignore[arg-type]
    check.accept(b"1.005", is_smaller=False, only_folded=False)  # type: ignore[arg-type]
    with pytest.raises(TooSlow, match="no smaller"):
        check.accept(b"1.005", is_smaller=False, only_folded=False)  # type: ignore[arg-type]
    assert check.tries == 2


@pytest.mark.parametrize(("ratio", "accepted"), [(1.0, True), (0.97, True), (0.94, False)])
def test_clean_up_need_not_be_faster(ratio: float, accepted: bool) -> None:
    def timer(original: object, candidate: bytes, feeds: Feeds, budget_s: float) -> Timing:
        return Timing(ratio, 1.0, ratio, ratio / 1.05, ratio * 1.05, ratio, 1.0, PAIRS, "cpu", pairs=PAIRS)

    validator = SimpleNamespace(shapes=[{}], time=lambda c, t, s: [t("original", c, {}, s)])
    check = SpeedCheck(validator, Timers(timer, timer), Pace(60.0))  # type: ignore[arg-type]
    if accepted:
        assert check.accept(b"", is_smaller=True, only_folded=True).ratio == ratio  # type: ignore[arg-type]
    else:
        with pytest.raises(TooSlow):
            check.accept(b"", is_smaller=True, only_folded=True)  # type: ignore[arg-type]
    with pytest.raises(TooSlow):
        check.accept(b"", is_smaller=True, only_folded=False)  # type: ignore[arg-type]


def test_what_an_earlier_run_found_slower_is_refused_without_a_measurement() -> None:
    def known(ratio: float) -> SpeedCheck:
        timing = NoisyTimer(0, 0.001)("original", str(ratio).encode(), {}, 1.0)
        validator = SimpleNamespace(shapes=[{"x": (1,)}], timed=[{}], time=None)  # measures nothing
        never = each_alone(NoisyTimer(0, 0.0))
        return SpeedCheck(validator, Timers(never, never, lambda candidate, inputs: [timing]), Pace(60.0))  # type: ignore[arg-type]

    with pytest.raises(TooSlow, match=r"slower: 0\.9"):
        known(0.9).require_not_known_slower(b"candidate")
    known(1.1).require_not_known_slower(b"candidate")
