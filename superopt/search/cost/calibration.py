"""Fits the description of a device to timings of a fixed set of operators, `probes.txt`, on the target.

The general figures of the description are read off a few operators that depend on nearly one figure alone. Then each
kind of kernel (`kernel_kind`) gets two figures from its probes: the seconds to start it, and the factor by which it is
slower than the general figures predict.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from superopt.corpus import Window, read_corpus
from superopt.ir.infer import make, replace
from superopt.ir.term import Attr, Term, topological, var
from superopt.ir.types import TensorType
from superopt.runtime import Target
from superopt.search.cost.analytic import AnalyticCost, Roofline
from superopt.search.cost.device import Device
from superopt.search.cost.kernel_kind import kernel_kind
from superopt.search.cost.measurement_key import conditions
from superopt.search.cost.microbench import Unmeasurable
from superopt.search.cost.operator_form import describe, isolated
from superopt.search.cost.operator_timer import OperatorTimer
from superopt.search.cost.work import work
from superopt.store import OperatorKey, ResultStore, Seconds

__all__ = ["Calibration", "MeasuredSeconds", "calibrate", "fitted", "kinds"]

MeasuredSeconds = Callable[[Term], float | None]  # of an operator; None if it cannot be measured

_PROBES = Path(__file__).resolve().parent / "probes.txt"
_PROBES_BETWEEN_LINES = 20
_OPSETS = (17, 20)  # of the probes: the second one for operators that the first one lacks
# Sizes of the general probes by provider: of square matrices, of the images of a depthwise Conv, and bytes beyond all
# caches.
_MATRIX = {"cpu": 256, "cuda": 4096}
_CHANNELS, _IMAGE, _KERNEL = {"cpu": 64, "cuda": 512}, 56, 7
_MEMORY_BYTES = {"cpu": 1 << 28, "cuda": 3 << 28}
_ROWS, _DEPTH = 64, 4096  # of a product with few results
_FLOATS = ("float16", "bfloat16", "double")
_MAX_FACTOR = 1000.0  # of a kernel: a larger one is noise
# A probe whose work takes less than this multiple of the time to start a kernel tells only the start.
_LITTLE_WORK = 5
_MUCH_LONGER = 1.5  # than the usual start of a GPU's kernels


@dataclass(frozen=True)
class Calibration:
    """A fitted description. `measured` of the `probes` were timed, in this run or an earlier one."""

    device: Device
    measured: int
    probes: int


def calibrate(
    target: Target,
    prior: Device,
    store: ResultStore,
    *,
    limit_s: float,
    anew: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Describe `target` by probes that earlier runs have timed, and those that can be timed in `limit_s` seconds.

    Figures that were not measured are those of `prior`. With `anew`, all probes are timed again.
    """
    measure = _Measurement(target, prior, store, time.monotonic() + limit_s, anew)
    probes = _probes()
    device = fitted(measure.seconds, dataclasses.replace(prior, name=f"this machine ({prior.provider})", measured=True))
    samples: list[tuple[Term, float]] = []
    next_line = 1
    for number, probe in enumerate(probes, 1):
        if number >= next_line and measure.will_time(probe):
            progress(f"measuring this machine: {number} of {len(probes)} operators")
            next_line = number + _PROBES_BETWEEN_LINES
        if (seconds := measure.seconds(probe)) is not None:
            samples.append((probe, seconds))
    if len(samples) < len(probes):
        known = f"{prior.provider}; {len(samples)} of {len(probes)} operators measured so far"
        device = dataclasses.replace(device, name=f"this machine ({known})")
    return Calibration(kinds(device, prior, samples), len(samples), len(probes))


def fitted(seconds: MeasuredSeconds, prior: Device) -> Device:
    """Return `prior` with the general figures that `seconds` tells, and without figures of kinds."""
    found: dict[str, float] = {}
    if times := _known(seconds, [make(op, (_value("float", 64),)) for op in ("Relu", "Sigmoid", "Neg", "Abs")]):
        found["overhead"] = statistics.median(times)
    overhead = found.get("overhead", prior.overhead)

    def rate(amount: float, term: Term) -> float | None:
        measured = seconds(term)
        return None if measured is None or measured <= overhead else amount / (measured - overhead)

    large, near = _MEMORY_BYTES[prior.provider], prior.cache_bytes / 2
    for name, touched in (("bandwidth", large), ("cache_bandwidth", near)):
        addition = make("Add", (_value("float", count := max(1, int(touched) // 12)), _value("float", count, name="y")))
        found |= _entry(name, rate(12 * count, addition) if touched else None)
    channels, size = _CHANNELS[prior.provider], _MATRIX[prior.provider]
    kernel = _weight("float", channels, 1, _KERNEL, _KERNEL)
    attributes: dict[str, Attr] = {
        "group": channels,
        "pads": (_KERNEL // 2,) * 4,
        "strides": (1, 1),
        "dilations": (1, 1),
    }
    depthwise = make("Conv", (_value("float", 1, channels, _IMAGE, _IMAGE), kernel), attributes)
    found |= _entry("scalar", rate(work(depthwise).dense, depthwise))
    found |= _entry("dense", rate(2.0 * size**3, _product("float", size, size, size)))
    of_types = {dtype: rate(2.0 * size**3, _product(dtype, size, size, size)) for dtype in _FLOATS}
    dense = found.get("dense", prior.dense)
    if prior.provider != "cpu":  # a small product takes (FLOP / dense) * (full / results)
        few = rate(2.0 * _ROWS * _DEPTH * _ROWS, _product("float", _ROWS, _DEPTH, _ROWS))
        found |= _entry("full", None if few is None else max(1.0, round(_ROWS * _ROWS * dense / few)))
    full = int(found.pop("full", prior.full))
    dense_of = {**prior.dense_of, **{dtype: value for dtype, value in of_types.items() if value is not None}}
    return Device(**{**vars(prior.general), **found, "full": full, "dense_of": dense_of})


def kinds(device: Device, prior: Device, samples: Iterable[tuple[Term, float]]) -> Device:
    """Return `device`, which has none, with figures of kinds: those of `samples` (operator, seconds) or `prior`."""
    cost, on_cpu = AnalyticCost(device), device.provider == "cpu"
    of_kind: dict[str, list[tuple[Roofline, float]]] = {}  # predicted seconds of the work, measured seconds
    for term, seconds in samples:
        of_kind.setdefault(kernel_kind(term, device.channel_block), []).append((cost.roofline(term), seconds))
    # A GPU starts one kernel as fast as another, and most probes do little else.
    overhead = device.overhead
    if not on_cpu and of_kind:
        usual = statistics.median(seconds - max(predicted) for predicted, seconds in itertools.chain(*of_kind.values()))
        overhead = max(overhead, usual)
    slower, slower_traffic, rests = dict(prior.slower), dict(prior.slower_traffic), dict[str, list[float]]()
    for kind, own in of_kind.items():
        worked = [sample for sample in own if max(sample[0]) > _LITTLE_WORK * overhead]
        factor, traffic_factor = _factors(worked, overhead)
        slower[kind] = round(factor, 3)
        slower_traffic.pop(kind, None)
        if traffic_factor != factor:
            slower_traffic[kind] = round(traffic_factor, 3)
        small = [sample for sample in own if sample not in worked]
        if small:
            rests[kind] = [seconds - max(p.arithmetic * factor, p.traffic * traffic_factor) for p, seconds in small]
    starts = (_starts_on_cpu if on_cpu else _starts_on_gpu)(rests, overhead)
    starts = {**{kind: start for kind, start in prior.starts.items() if kind not in of_kind}, **starts}
    rounded = {kind: float(f"{start:.3g}") for kind, start in starts.items()}
    return dataclasses.replace(device, overhead=overhead, slower=slower, slower_traffic=slower_traffic, starts=rounded)


def _starts_on_cpu(rests: Mapping[str, Sequence[float]], overhead: float) -> dict[str, float]:
    """Return the seconds to start each kind of kernel.

    A start is the small difference of two timings, so the geometric mean of its figure and `overhead` is taken.
    """
    medians = {kind: max(statistics.median(rest), overhead / 4) for kind, rest in rests.items()}
    return {kind: math.sqrt(start * overhead) for kind, start in medians.items()}


def _starts_on_gpu(rests: Mapping[str, Sequence[float]], overhead: float) -> dict[str, float]:
    """Return the seconds to start each kind of kernel: `overhead`, unless it takes half as long again.

    A kind that takes longer has several kernels, or one that leaves the device idle. Smaller differences may be noise,
    for which a search would prefer LeakyRelu to Relu and so break fusions of the runtime: two calibrations of an H200
    differ by 1.09 in the median operator, and by up to 1.6 in Convs.
    """
    starts = {kind: statistics.geometric_mean(max(rest, overhead) for rest in own) for kind, own in rests.items()}
    return {kind: start if start > _MUCH_LONGER * overhead else overhead for kind, start in starts.items()}


def _factors(samples: Iterable[tuple[Roofline, float]], overhead: float) -> tuple[float, float]:
    """Return the factors of the arithmetic and of the memory traffic of one kind, such that seconds are about
    overhead + max(factor * arithmetic, factor * traffic).

    Each is the median over the probes in which it takes longer, or if there are none, over all. Of MaxPool, a window of
    13 x 13 takes 4.6 times as long as its arithmetic would, and one of 3 x 3 2.7 times as long as its traffic.
    """
    bound: tuple[list[float], list[float]] = ([], [])
    for predicted, seconds in samples:
        ratio = max(seconds - overhead, 0.1 * seconds) / max(predicted)
        bound[predicted.traffic > predicted.arithmetic].append(ratio)
    usual = [*bound[0], *bound[1]] or [1.0]
    arithmetic, traffic = (min(_MAX_FACTOR, statistics.median(own or usual)) for own in bound)
    return arithmetic, traffic


class _Measurement:
    """Seconds of operators on the target: from the store, or measured until the deadline."""

    def __init__(self, target: Target, prior: Device, store: ResultStore, deadline: float, anew: bool) -> None:
        self._target, self._store, self._deadline, self._anew = target, store, deadline, anew
        estimate = AnalyticCost(prior, target.threads)
        self._timers = [OperatorTimer(target, opset, store, estimate) for opset in _OPSETS]

    def seconds(self, term: Term) -> float | None:
        """Return the seconds of an operator; None if it cannot be measured, or was not and the time is over."""
        row = self._known(term)
        if row is None:
            if time.monotonic() > self._deadline:
                return None
            row = Seconds(self._measured(isolated(term, {})))
            self._store.operator_costs.put(self._key(term), row)
        return row.seconds or None

    def will_time(self, term: Term) -> bool:
        """Return True if `seconds` would time the operator now."""
        return time.monotonic() <= self._deadline and self._known(term) is None

    def _known(self, term: Term) -> Seconds | None:
        return None if self._anew else self._store.operator_costs.get(self._key(term))

    def _key(self, term: Term) -> OperatorKey:
        return OperatorKey(conditions(self._target, _OPSETS[0]), describe(isolated(term, {})))

    def _measured(self, alone: Term) -> float:
        """Return the seconds of an operator, or 0 if it cannot be measured."""
        for timer in self._timers:
            try:
                return timer.seconds(alone)
            except Unmeasurable:
                continue
        return 0.0


@cache
def _probes() -> tuple[Term, ...]:
    return tuple(map(_probe, read_corpus(_PROBES)))


def _probe(window: Window) -> Term:
    """Return the operator of a window over its leaves, with constants for weights."""
    constants = {
        term: Term.of("Const", (), {"hash": str(term.attr("name"))}, term.types)
        for term in topological(window.terms)
        if term.op == "Var" and term.attr("name") in window.weights
    }
    (root, *_) = replace(window.terms, constants)
    if root.op == "Out":
        assert root.inputs[0] is not None
        return root.inputs[0]
    return root


def _entry(name: str, value: float | None) -> Mapping[str, float]:
    return {} if value is None else {name: value}


def _known(seconds: MeasuredSeconds, terms: Iterable[Term]) -> list[float]:
    return [value for term in terms if (value := seconds(term)) is not None]


def _value(dtype: str, *shape: int, name: str = "x") -> Term:
    return var(name, TensorType(dtype, shape))


def _weight(dtype: str, *shape: int) -> Term:
    return Term.of("Const", (), {"hash": "w"}, (TensorType(dtype, shape),))


def _product(dtype: str, rows: int, depth: int, columns: int) -> Term:
    return make("MatMul", (_value(dtype, rows, depth), _weight(dtype, depth, columns)))
