"""Two models timed against each other, interleaved, so that drift of the machine hits both alike.

Order A B B A cancels linear drift within a round. At one thread on the CPU the ratio is taken from CPU time, which
other processes disturb least; elsewhere (several threads, GPU) from wall time.

What else runs on the machine only ever adds time, in bursts. So of a pair's samples the least count, of both sides
alike (Chen and Revels, Robust benchmarking in noisy environments, 2016).

Where a session's memory happens to lie makes it up to 2% faster or slower for as long as it lives, and of two equal
sessions the one that was opened second tends to be 1% faster. So `time_models` opens fresh pairs, in alternating order,
and its interval is over pairs: more runs of one pair would only make that pair's accident look certain.
`time_contest` does the same for several contestants at once, with heats in place of pairs.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Standing", "Timing", "time_contest", "time_interleaved", "time_models", "time_once"]

# A sample is at least this long: the clocks' own cost and resolution vanish in it.
_SAMPLE_S = 0.01
_MOST_CALLS = 1000
_CHECK_EVERY = 20  # rounds
_LEAST_PAIRS, _MOST_PAIRS = 4, 12
# Quantiles (two-sided 95%) of Student's t by degrees of freedom.
_STUDENT = {3: 3.182, 5: 2.571, 7: 2.365, 9: 2.262, 11: 2.201}


@dataclass(frozen=True)
class Timing:
    """Seconds a run, the least that were seen (over pairs of sessions: the median of those). `ratio` is A's time over
    B's (above 1: B is faster; over pairs: the geometric mean), and `low`..`high` holds it with about 95% confidence;
    all three and `before`, `after` by `clock` (`cpu` or `wall`)."""

    before: float
    after: float
    ratio: float
    low: float
    high: float
    wall_before: float
    wall_after: float
    rounds: int
    clock: str
    remembered: bool = False  # seen by an earlier run
    seconds: float = 0.0  # that finding it out took, where somebody asked


@dataclass(frozen=True)
class Standing:
    """One of several contestants: `timing` is the first contestant's against this one's, and the seconds a run of this
    one, `timing.after`, lie within `low`..`high` with about 95% confidence (order statistics of the heats')."""

    timing: Timing
    low: float
    high: float


def time_once(run: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds of one call."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall


def time_interleaved(
    before: Callable[[], object],
    after: Callable[[], object],
    *,
    budget_s: float,
    cpu_clock: bool,
    least: int = 5,
    most: int = 400,
    sample_s: float = _SAMPLE_S,
) -> Timing:
    """Times two calls against each other for `budget_s` seconds of wall time (fewer where the ratio settles), at
    least `least` rounds of A B B A.

    The calls are run once each beforehand (first runs allocate); a sample repeats a short call.
    """
    start = time.perf_counter()
    first = 0.0
    for run in (before, after):
        run()
        first = max(first, time_once(run)[1])
    calls = max(1, min(_MOST_CALLS, round(sample_s / max(first, 1e-9))))

    def sample(run: Callable[[], object]) -> tuple[float, float]:
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(calls):
            run()
        return (time.process_time() - cpu) / calls, (time.perf_counter() - wall) / calls

    cpu_a: list[float] = []
    cpu_b: list[float] = []
    wall_a: list[float] = []
    wall_b: list[float] = []
    ratios: list[float] = []
    while len(ratios) < least or (len(ratios) < most and time.perf_counter() - start < budget_s):
        round_ = [sample(before), sample(after), sample(after), sample(before)]
        a, b = (round_[0], round_[3]), (round_[1], round_[2])
        cpu_a += [s[0] for s in a]
        cpu_b += [s[0] for s in b]
        wall_a += [s[1] for s in a]
        wall_b += [s[1] for s in b]
        clock = 0 if cpu_clock else 1
        ratios.append((a[0][clock] + a[1][clock]) / max(b[0][clock] + b[1][clock], 1e-12))
        if len(ratios) % _CHECK_EVERY == 0 and _settled(ratios):
            break
    return _timing(ratios, (cpu_a, cpu_b), (wall_a, wall_b), cpu_clock)


def time_models(
    make_before: Callable[[], Callable[[], object]],
    make_after: Callable[[], Callable[[], object]],
    *,
    budget_s: float,
    cpu_clock: bool,
    sample_s: float = _SAMPLE_S,
) -> Timing:
    """Times fresh pairs of calls, each made anew (a session opened), the order of making alternating.

    Takes about `budget_s` seconds of wall time, but at least four pairs; fewer pairs than twelve where the answer is
    clear before. The interval is Student's over the logarithms of the pairs' ratios.
    """
    start = time.perf_counter()
    pairs: list[Timing] = []
    while True:
        if len(pairs) % 2 == 0:
            before, after = make_before(), make_after()
        else:
            after, before = make_after(), make_before()
        share = budget_s / (2 * _LEAST_PAIRS)
        pairs.append(
            time_interleaved(before, after, budget_s=share, cpu_clock=cpu_clock, least=3, most=100, sample_s=sample_s)
        )
        del before, after
        if len(pairs) < _LEAST_PAIRS or len(pairs) % 2:
            continue
        timing = _over_pairs(pairs)
        if len(pairs) == _MOST_PAIRS or time.perf_counter() - start > budget_s or _clear(timing):
            return timing


def time_contest(
    makers: Sequence[Callable[[], Callable[[], object]]],
    *,
    budget_s: float,
    cpu_clock: bool,
    seed: int | str = 0,
    sample_s: float = _SAMPLE_S,
) -> list[Standing]:
    """Times several calls against the first of them, all in one run; standings in the order of `makers`.

    In each heat all calls are made anew and take turns. Heats come in twos, a random order of the contestants and then
    the same backwards, so that neither being made first nor being called last is anybody's lot. Takes about `budget_s`
    seconds of wall time, but at least four heats; fewer than twelve where all answers are clear before.
    """
    start = time.perf_counter()
    rng = random.Random(seed)
    order = list(range(len(makers)))
    heats: list[list[Timing]] = []
    while True:
        if len(heats) % 2 == 0:
            rng.shuffle(order)
        else:
            order.reverse()
        heats.append(_heat(makers, order, budget_s / (2 * _LEAST_PAIRS), cpu_clock, sample_s))
        if len(heats) < _LEAST_PAIRS or len(heats) % 2:
            continue
        standings = [_standing(list(timings)) for timings in zip(*heats, strict=True)]
        clear = all(_clear(standing.timing) for standing in standings[1:])
        if len(heats) == _MOST_PAIRS or time.perf_counter() - start > budget_s or clear:
            return standings


def _heat(
    makers: Sequence[Callable[[], Callable[[], object]]],
    order: Sequence[int],
    budget_s: float,
    cpu_clock: bool,
    sample_s: float,
    least: int = 3,
    most: int = 100,
) -> list[Timing]:
    """One heat: everybody made in `order`, then rounds in that order and back (the palindrome cancels linear drift)."""
    start = time.perf_counter()
    runs = {index: makers[index]() for index in order}
    calls: dict[int, int] = {}
    for index, run in runs.items():
        run()
        calls[index] = max(1, min(_MOST_CALLS, round(sample_s / max(time_once(run)[1], 1e-9))))
    cpu: list[list[float]] = [[] for _ in makers]
    wall: list[list[float]] = [[] for _ in makers]
    rounds = 0
    while rounds < least or (rounds < most and time.perf_counter() - start < budget_s):
        for index in (*order, *reversed(order)):
            cpu_start, wall_start = time.process_time(), time.perf_counter()
            for _ in range(calls[index]):
                runs[index]()
            cpu[index].append((time.process_time() - cpu_start) / calls[index])
            wall[index].append((time.perf_counter() - wall_start) / calls[index])
        rounds += 1
    timings: list[Timing] = []
    for index in range(len(makers)):
        a, b = (cpu[0], cpu[index]) if cpu_clock else (wall[0], wall[index])
        ratios = [(a[i] + a[i + 1]) / max(b[i] + b[i + 1], 1e-12) for i in range(0, 2 * rounds, 2)]
        timings.append(_timing(ratios, (cpu[0], cpu[index]), (wall[0], wall[index]), cpu_clock))
    return timings


def _timing(
    ratios: list[float], cpu: tuple[list[float], list[float]], wall: tuple[list[float], list[float]], cpu_clock: bool
) -> Timing:
    """Of the samples of both sides, and the ratios of the rounds."""
    before, after = map(min, cpu if cpu_clock else wall)
    ratio = before / max(after, 1e-12)
    low, high = median_interval(ratios)
    return Timing(
        before=before,
        after=after,
        ratio=ratio,
        low=min(low, ratio),
        high=max(high, ratio),
        wall_before=min(wall[0]),
        wall_after=min(wall[1]),
        rounds=len(ratios),
        clock="cpu" if cpu_clock else "wall",
    )


def _standing(heats: list[Timing]) -> Standing:
    return Standing(_over_pairs(heats), *median_interval([heat.after for heat in heats]))


def _clear(timing: Timing) -> bool:
    return timing.low > 1.02 or timing.high < 0.99 or timing.high - timing.low < 0.01


def _over_pairs(pairs: list[Timing]) -> Timing:
    logs = [math.log(pair.ratio) for pair in pairs]
    mean = statistics.fmean(logs)
    reach = _STUDENT[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return Timing(
        before=statistics.median(pair.before for pair in pairs),
        after=statistics.median(pair.after for pair in pairs),
        ratio=math.exp(mean),
        low=math.exp(mean - reach),
        high=math.exp(mean + reach),
        wall_before=statistics.median(pair.wall_before for pair in pairs),
        wall_after=statistics.median(pair.wall_after for pair in pairs),
        rounds=sum(pair.rounds for pair in pairs),
        clock=pairs[0].clock,
    )


def _settled(ratios: list[float]) -> bool:
    """Whether more rounds would tell nothing: the interval is narrow, and very narrow where it is close to 1."""
    low, high = median_interval(ratios)
    close = low < 1.01 and high > 0.99
    return high - low < (0.004 if close else 0.01) * high


def median_interval(values: list[float]) -> tuple[float, float]:
    """An interval that holds the median with about 95% confidence: order statistics n/2 -+ 0.98 sqrt(n), from the
    normal approximation of the binomial distribution; the extremes where there are too few values."""
    ordered = sorted(values)
    n = len(ordered)
    reach = 0.98 * n**0.5
    low = max(0, int(n / 2 - reach))
    high = min(n - 1, int(n / 2 + reach))
    return ordered[low], ordered[high]
