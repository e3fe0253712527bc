"""Measures a region before and after a rewrite: each is run as a model of its own, with the runtime's optimizations."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from superopt.ir.infer import IllTyped, replace
from superopt.ir.term import Term, topological, var
from superopt.ir.types import FLOAT_DTYPES
from superopt.runtime import LARGE_BYTES, CannotRun, Target, TimedModel, Timing, time_pair
from superopt.search.cost.folding import folding_seconds
from superopt.search.cost.measurement_key import conditions
from superopt.search.cost.microbench import (
    Array,
    Unmeasurable,
    concrete,
    random_array,
    single_element,
    timed_model,
)
from superopt.search.cost.work import bytes_of
from superopt.search.region import canonical
from superopt.store import RegionKey, RegionTiming, ResultStore

__all__ = ["Gain", "ModelTimer", "RegionTimer", "TimerOverSizes", "Untimed"]

# A first timing whose interval holds both a loss and a gain is repeated with this many times the seconds.
_LOSS_RATIO, _GAIN_RATIO = 0.99, 1.02
_REPEATED_TIMING_FACTOR = 4.0
# A timing whose interval reaches below this share of its ratio is noise: a later run times the region anew.
_NOISY_SHARE = 0.9
# If the weights of both graphs do not fit into a near cache together, each graph has to fetch its weights anew after
# the other one ran; a model that runs alone does not. Then samples are longer, as for whole models.
_NEAR_CACHE_BYTES = 1 << 23
_SAMPLE_SECONDS, _LONG_SAMPLE_SECONDS = 0.01, 0.05
# If folding the constants of a graph takes more seconds, random ones are timed instead: a rewrite is timed more often
# than it is made.
_MAX_FOLDING_SECONDS = 0.5


class Untimed(Exception):
    """There is no time to measure a region."""


class Gain(NamedTuple):
    """Measured speed-up: the ratio of times, before by after, and the lower end of its 95% interval."""

    ratio: float
    low: float


# Returns the measured speed-up of a region's rewrite (outputs before, outputs after) through the runtime's whole
# pipeline, or None if the region cannot run on its own; then the cost model decides. Raises Untimed.
RegionTimer: TypeAlias = Callable[[tuple[Term, ...], tuple[Term, ...]], "Gain | None"]


class ModelTimer:
    """A `RegionTimer` that runs both graphs in ONNX Runtime on the target, interleaved.

    `weights` are the model's arrays, `sizes` the values of symbolic sizes. A region gets about `budget_s` seconds. None
    is timed after the time `deadline` of `time.monotonic`.

    Results are kept in `store`, unless noise hides them. A row applies to every region of the same terms, whatever the
    values of its weights, so that a repeated run takes the same decisions.
    """

    def __init__(
        self,
        target: Target,
        weights: Mapping[str, Array],
        *,
        sizes: Mapping[str, int] | None = None,
        opset: int = 17,
        budget_s: float = 0.8,
        deadline: float = math.inf,
        store: ResultStore | None = None,
    ) -> None:
        self.target, self.weights, self.sizes = target, weights, dict(sizes or {})
        self.opset, self.budget_s, self.deadline, self.store = opset, budget_s, deadline, store

    def __call__(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain | None:
        """Return the speed-up, or None if the graphs cannot run on their own. Raises Untimed."""
        if self.store is None:
            return self._time_before_deadline(before, after)
        key = self._key(before, after)
        row = self.store.region_timings.get(key)
        if row is None:
            row = RegionTiming(*(self._time_before_deadline(before, after) or (math.inf, math.inf)))
            if math.isinf(row.ratio) or row.low > _NOISY_SHARE * row.ratio:
                self.store.region_timings.put(key, row)
        return None if math.isinf(row.ratio) else Gain(row.ratio, row.low)

    def _time_before_deadline(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain | None:
        if time.monotonic() > self.deadline or _weight_bytes(before) > LARGE_BYTES:
            raise Untimed  # so large a region takes as long as the whole model, which is timed anyway
        return self._time(before, after)

    def _key(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> RegionKey:
        graphs = [",".join(term.digest for term in canonical(graph) or graph) for graph in (before, after)]
        sizes = ",".join(f"{name}={size}" for name, size in sorted(self.sizes.items()))
        return RegionKey(conditions(self.target, self.opset), sizes, *graphs)

    def _time(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain | None:
        sample_s = _LONG_SAMPLE_SECONDS if _weight_bytes(before) > _NEAR_CACHE_BYTES else _SAMPLE_SECONDS

        def measure(budget_s: float) -> Timing:
            return time_pair(*models, self.target, budget_s=budget_s, sample_s=sample_s)

        try:
            models = self._timed_model(before), self._timed_model(after)
            timing = measure(self.budget_s)
            if timing.low <= _LOSS_RATIO and timing.high >= _GAIN_RATIO:
                timing = measure(_REPEATED_TIMING_FACTOR * self.budget_s)
        except (Unmeasurable, CannotRun):
            return None
        return Gain(timing.ratio, timing.low)

    def _timed_model(self, outputs: tuple[Term, ...]) -> TimedModel:
        inputs = {
            term: var(str(term.attr("name")), concrete(term.type, self.sizes))
            for term in topological(outputs)
            if term.op == "Var"
        }
        try:
            outputs = replace(outputs, inputs)
        except IllTyped as error:
            raise Unmeasurable(f"a region at the sizes to be measured: {error}") from error
        outputs, arrays = _without_long_folding(outputs)
        weights = {**self.weights, **arrays}
        return timed_model([single_element(output) for output in outputs], weights, opset=self.opset)


class TimerOverSizes:
    """A `RegionTimer` that times regions at several sizes, with one timer for each."""

    def __init__(self, timers: Sequence[ModelTimer]) -> None:
        self._timers = timers

    def __call__(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain | None:
        """Return the geometric mean of the speed-ups, or the first that is a loss. Raises Untimed."""
        gains: list[Gain] = []
        for timer in self._timers:
            gain = timer(before, after)
            if gain is not None and gain.ratio <= _LOSS_RATIO:
                return gain
            if gain is not None:
                gains.append(gain)
        if not gains:
            return None
        ratio, low = (statistics.geometric_mean(gain[k] for gain in gains) for k in (0, 1))
        return Gain(ratio, low)


def _without_long_folding(outputs: tuple[Term, ...]) -> tuple[tuple[Term, ...], dict[str, Array]]:
    """Return the graph with random values for floats that take long to fold, and these values by name."""
    if folding_seconds(outputs) <= _MAX_FOLDING_SECONDS:
        return outputs, {}
    order = list(topological(outputs))
    read = dict.fromkeys(used for term in order if not term.is_constant for used in term.inputs if used is not None)
    stand_ins: dict[Term, Term] = {}
    arrays: dict[str, Array] = {}
    for used in read:
        type = used.type
        if used.is_constant and used.inputs and type is not None and type.concrete() and type.dtype in FLOAT_DTYPES:
            name = f"folded_{len(arrays)}"
            arrays[name] = random_array(type, len(arrays))
            stand_ins[used] = Term.of("Const", (), {"hash": name}, (type,))
    return replace(outputs, stand_ins), arrays


def _weight_bytes(outputs: tuple[Term, ...]) -> int:
    """Return the bytes of the stored constants in a graph, before constant folding."""
    return sum(bytes_of(term.type) for term in topological(outputs) if term.is_constant and not term.inputs)
