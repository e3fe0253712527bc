"""Interleaved timing of two models, so that drift of the machine affects both alike.

The order A B B A cancels linear drift within a round. At one thread on the CPU the ratio is taken from CPU time, which
other processes disturb least; elsewhere (several threads, GPU) from wall time.

Disturbances by other processes only add time, in bursts. So the shortest of a pair's samples count, for both models
(Chen and Revels, Robust benchmarking in noisy environments, 2016).

The memory placement of a session makes it up to 2% faster or slower for its whole life, and the second of two equal
sessions tends to be 1% faster. So `time_models` opens fresh pairs of sessions in alternating order. Its interval is
over pairs: more runs of one pair would only narrow the interval around the bias of that pair. A pair runs all inputs
in turn, because opening a session may take longer than the runs. `time_contest` times several contestants at once; its
heats correspond to pairs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from superopt.runtime.intervals import median_interval
from superopt.runtime.timing import (
    MIN_PAIRS,
    MIN_PAIRS_UNDECIDED,
    Standing,
    Timing,
    is_clear,
    is_decided,
    is_far,
    is_settled,
    over_pairs,
    standing,
)

__all__ = ["Runs", "time_contest", "time_interleaved", "time_models", "time_once"]

# Minimum length of a sample, for which the cost and resolution of the clocks are negligible.
_SAMPLE_SECONDS = 0.01
_MAX_CALLS_PER_SAMPLE = 1000
_ROUNDS_BETWEEN_CHECKS = 20
_MAX_PAIRS = 12
_MIN_PAIRS_TO_CHOOSE = 2
_MAX_PAIR_SECONDS = 0.5  # more pairs narrow the interval, more runs of one pair do not
_MAX_PAIRS_UNDECIDED = 24  # of a measurement that its ratio must not end, as long as there is time

Runs: TypeAlias = Sequence[Callable[[], object]]  # the runs of one session, one for each of its inputs


def time_once(run: Callable[[], object]) -> tuple[float, float]:
    """Call `run` once and return its CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - cpu, time.perf_counter() - wall


def _calls_per_sample(run: Callable[[], object], sample_s: float) -> int:
    """Return the number of calls, at least 1, that take `sample_s` seconds after a first, slower call.

    If already the first call takes two samples, the later ones are not timed to find out.
    """
    seconds = time_once(run)[1]
    if seconds < 2 * sample_s:
        seconds = time_once(run)[1]
    return max(1, min(_MAX_CALLS_PER_SAMPLE, round(sample_s / max(seconds, 1e-9))))


def _sample(run: Callable[[], object], calls: int) -> tuple[float, float]:
    """Return the CPU and wall seconds of one of `calls` calls in a row."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        run()
    return (time.process_time() - cpu) / calls, (time.perf_counter() - wall) / calls


def time_interleaved(
    before: Callable[[], object],
    after: Callable[[], object],
    *,
    budget_s: float,
    cpu_clock: bool,
    min_rounds: int = 5,
    max_rounds: int = 400,
    sample_s: float = _SAMPLE_SECONDS,
) -> Timing:
    """Time two calls against each other, in rounds of A B B A.

    Takes `budget_s` seconds of wall time, or fewer if the ratio settles, but at least `min_rounds` rounds. Both calls
    are run beforehand, because first runs allocate memory. A sample repeats a short call.
    """
    start = time.perf_counter()
    calls = min(_calls_per_sample(run, sample_s) for run in (before, after))

    cpu_a: list[float] = []
    cpu_b: list[float] = []
    wall_a: list[float] = []
    wall_b: list[float] = []
    ratios: list[float] = []
    while len(ratios) < min_rounds or (len(ratios) < max_rounds and time.perf_counter() - start < budget_s):
        round_ = [_sample(run, calls) for run in (before, after, after, before)]
        a, b = (round_[0], round_[3]), (round_[1], round_[2])
        cpu_a += [s[0] for s in a]
        cpu_b += [s[0] for s in b]
        wall_a += [s[1] for s in a]
        wall_b += [s[1] for s in b]
        clock = 0 if cpu_clock else 1
        ratios.append((a[0][clock] + a[1][clock]) / max(b[0][clock] + b[1][clock], 1e-12))
        if len(ratios) % _ROUNDS_BETWEEN_CHECKS == 0 and is_settled(ratios):
            break
    return _timing(ratios, (cpu_a, cpu_b), (wall_a, wall_b), cpu_clock)


def time_models(
    make_before: Callable[[], Runs],
    make_after: Callable[[], Runs],
    *,
    budget_s: float,
    cpu_clock: bool,
    sample_s: float = _SAMPLE_SECONDS,
    until_decided: bool = True,
    apart: bool = False,
) -> list[Timing]:
    """Time pairs of sessions; for each pair both are made again (their runs are), in alternating order.

    Returns one timing for each run of a session.
    A sequential test: it ends when the verdict is clear, or after `budget_s` seconds of wall time. With
    `until_decided`, two to twelve pairs are timed, until the interval is on one side of 1, or narrow. That favours a
    ratio that happens to be high, and serves to compare candidates only. Without it, eight to 24 pairs are timed, and
    fewer if the ratio is far from 1 (`is_far`) or if there is no time for more, but at least four; it ends early only
    at an interval that is narrow for its distance from 1.
    Of several runs, one whose own interval is that narrow after four pairs is left out of those that follow: they have
    the time for the others.
    With `apart`, for sessions that need much memory and are slow to make, one of a pair exists at a time.
    The interval is over the logarithms of the pairs' ratios: that of signed ranks from eight pairs on, which
    outliers widen less (`signed_rank`), and Student's of fewer.
    """
    start = time.perf_counter()
    least, usual, most = MIN_PAIRS, MIN_PAIRS_UNDECIDED, _MAX_PAIRS_UNDECIDED
    if until_decided:
        least, usual, most = _MIN_PAIRS_TO_CHOOSE, _MIN_PAIRS_TO_CHOOSE, _MAX_PAIRS
    share = min(budget_s / (2 * max(MIN_PAIRS, usual)), _MAX_PAIR_SECONDS)
    sessions = _Sessions(make_before, make_after, share, cpu_clock, sample_s)
    time_one = sessions.time_apart if apart else sessions.time_together
    pairs: list[list[Timing]] = []  # of each run
    wanted: list[int] | None = None  # the runs to time; None: all
    count = 0
    while True:
        count += 1
        found = time_one(count % 2 == 0, wanted)
        pairs = pairs or [[] for _ in found]
        for number, timing in zip(range(len(pairs)) if wanted is None else wanted, found, strict=True):
            pairs[number].append(timing)
        if count < least or count % 2:
            continue
        timings = [over_pairs(own) for own in pairs]
        seconds = time.perf_counter() - start
        if count >= most or seconds * (1 + 2 / count) > budget_s:  # no time for two more
            return timings
        if count >= usual and all(map(is_decided if until_decided else is_clear, timings)):
            return timings
        if not until_decided:
            if all(map(is_far, timings)):
                return timings
            wanted = [number for number, timing in enumerate(timings) if not is_clear(timing)] or None


# CPU and wall seconds of each sample.
_Samples: TypeAlias = tuple[list[float], list[float]]


@dataclass(frozen=True)
class _Sessions:
    """The makers of both sessions of a pair, and how to time their runs, in about `budget_s` seconds a pair."""

    make_before: Callable[[], Runs]
    make_after: Callable[[], Runs]
    budget_s: float
    cpu_clock: bool
    sample_s: float

    def time_together(self, reverse: bool, wanted: Sequence[int] | None) -> list[Timing]:
        """Make both sessions, the second one first if `reverse`, and time their `wanted` runs interleaved."""
        if reverse:
            after, before = self.make_after(), self.make_before()
        else:
            before, after = self.make_before(), self.make_after()
        before, after = _chosen(before, wanted), _chosen(after, wanted)
        options: dict[str, Any] = {"cpu_clock": self.cpu_clock, "min_rounds": 1, "max_rounds": 100}
        options |= {"budget_s": self.budget_s / len(before), "sample_s": self.sample_s}
        return [time_interleaved(a, b, **options) for a, b in zip(before, after, strict=True)]

    def time_apart(self, reverse: bool, wanted: Sequence[int] | None) -> list[Timing]:
        """Make one session, time its `wanted` runs and drop it, then the other; the second one first if `reverse`."""
        sampled: dict[int, list[_Samples]] = {}
        for side in (1, 0) if reverse else (0, 1):
            runs = _chosen((self.make_before, self.make_after)[side](), wanted)
            sampled[side] = [_samples(run, self.budget_s / (2 * len(runs)), self.sample_s) for run in runs]
            del runs
        timings: list[Timing] = []
        for before, after in zip(sampled[0], sampled[1], strict=True):
            cpu, wall = zip(before, after, strict=True)
            ratios = [a / max(b, 1e-12) for a, b in zip(*(cpu if self.cpu_clock else wall), strict=False)]
            timings.append(_timing(ratios, cpu, wall, self.cpu_clock))
        return timings


def _chosen(runs: Runs, wanted: Sequence[int] | None) -> Runs:
    return runs if wanted is None else [runs[number] for number in wanted]


def _samples(run: Callable[[], object], budget_s: float, sample_s: float) -> _Samples:
    """Time one run in about `budget_s` seconds, at least three times."""
    cpu, wall = list[float](), list[float]()
    calls = _calls_per_sample(run, sample_s)
    start = time.perf_counter()
    while len(cpu) < 3 or (len(cpu) < 100 and time.perf_counter() - start < budget_s):
        cpu_s, wall_s = _sample(run, calls)
        cpu.append(cpu_s)
        wall.append(wall_s)
    return cpu, wall


def time_contest(
    makers: Sequence[Callable[[], Callable[[], object]]],
    *,
    budget_s: float,
    cpu_clock: bool,
    seed: int | str = 0,
    sample_s: float = _SAMPLE_SECONDS,
) -> list[Standing]:
    """Time several calls against the first of them; return their standings in the order of `makers`.

    In each heat all calls are made again and take turns. Heats come in pairs, a random order of the contestants and
    then the reverse, so that no contestant is always made first or called last. Takes about `budget_s` seconds of wall
    time, but at least four heats, and at most twelve; it stops early if all results are decided.
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
        heats.append(_heat(makers, order, budget_s / (2 * MIN_PAIRS), cpu_clock, sample_s))
        if len(heats) < MIN_PAIRS or len(heats) % 2:
            continue
        standings = [standing(list(timings)) for timings in zip(*heats, strict=True)]
        decided = all(is_decided(one.timing) for one in standings[1:])
        if len(heats) == _MAX_PAIRS or time.perf_counter() - start > budget_s or decided:
            return standings


def _heat(
    makers: Sequence[Callable[[], Callable[[], object]]],
    order: Sequence[int],
    budget_s: float,
    cpu_clock: bool,
    sample_s: float,
    min_rounds: int = 3,
    max_rounds: int = 100,
) -> list[Timing]:
    """Run one heat: make all calls in `order`, then rounds in that order and back, which cancels linear drift."""
    start = time.perf_counter()
    runs = {index: makers[index]() for index in order}
    calls = {index: _calls_per_sample(run, sample_s) for index, run in runs.items()}
    cpu: list[list[float]] = [[] for _ in makers]
    wall: list[list[float]] = [[] for _ in makers]
    rounds = 0
    while rounds < min_rounds or (rounds < max_rounds and time.perf_counter() - start < budget_s):
        for index in (*order, *reversed(order)):
            cpu_s, wall_s = _sample(runs[index], calls[index])
            cpu[index].append(cpu_s)
            wall[index].append(wall_s)
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
    """Return the timing of one pair, from the samples of both sides and the ratios of the rounds."""
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
