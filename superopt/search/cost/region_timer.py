"""Regions timed before and after, as models of their own through the runtime's whole pipeline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from superopt.ir.infer import IllTyped, replace
from superopt.ir.term import Term, topological, var
from superopt.runtime import Target, Timing, time_models
from superopt.search.cost.cache import CostCache
from superopt.search.cost.measurement_key import conditions
from superopt.search.cost.microbench import Array, Unmeasurable, concrete, runner, tiny
from superopt.search.cost.work import bytes_of
from superopt.search.strategy.regions import canonical
from superopt.search.strategy.search_result import Gain, Untimed

__all__ = ["ModelTimer"]

_FORMAT = 4  # of the timing; a change makes old entries void
_NO_LOSS = 0.99
_GAIN = 1.02
_LONGER = 4.0  # times the usual, where the first look leaves both a loss and a gain possible
# Two graphs that take turns fetch their weights anew each time, where these fit into no near cache together: a model by
# itself does not. So samples are longer then, as those of whole models are.
_NEAR_BYTES = 1 << 23
_SAMPLES_S = (0.01, 0.05)


class ModelTimer:
    """A `RegionTimer` that runs both graphs in ONNX Runtime on the target, interleaved.

    `weights` are the model's arrays; `sizes` values of symbolic sizes; a region gets about `budget_s` seconds, and all
    together about `most_s`. That one was not timed for want of time is remembered for the repetition of the same run,
    which `run` names, so that it decides the same.
    Where the ratio's interval reaches down to a loss, its lower end is told for it. What was timed is remembered in
    `cache`, and holds for every region of the same terms, whatever its weights: a repeated run decides the same.
    `spent_s` is the time that measuring has taken.
    """

    def __init__(
        self,
        target: Target,
        weights: Mapping[str, Array],
        *,
        sizes: Mapping[str, int] | None = None,
        opset: int = 17,
        budget_s: float = 0.8,
        most_s: float = math.inf,
        cache: CostCache | None = None,
        run: str = "",
    ) -> None:
        self.target, self.weights, self.sizes = target, weights, dict(sizes or {})
        self.opset, self.budget_s, self.most_s, self.cache, self.run = opset, budget_s, most_s, cache, run
        self.spent_s = 0.0

    def __call__(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain | None:
        """Time before by time after; None where they cannot be run by themselves. Raises Untimed."""
        if self.cache is None:
            return self._in_time(before, after)
        key = self._key(before, after)
        untimed = f"{key}|untimed|{self.run}"
        if self.run and self.cache.get(untimed) is not None:  # whatever other runs have timed since
            raise Untimed
        keys = [f"{key}|{which}" for which in Gain._fields]
        ratio, low = (self.cache.get(key) for key in keys)
        if ratio is None or low is None:
            try:
                ratio, low = self._in_time(before, after) or (math.inf, math.inf)
            except Untimed:
                if self.run:
                    self.cache.put(untimed, math.inf)
                raise
            self.cache.put_all(dict(zip(keys, (ratio, low), strict=True)))
        return None if math.isinf(ratio) else Gain(ratio, low)

    def _in_time(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain | None:
        if self.spent_s > self.most_s:
            raise Untimed
        return self._time(before, after)

    def _key(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> str:
        graphs = ">".join(",".join(term.digest for term in canonical(graph) or graph) for graph in (before, after))
        sizes = ",".join(f"{name}={size}" for name, size in sorted(self.sizes.items()))
        return f"{_FORMAT}|{conditions(self.target, self.opset)}|region|{sizes}|{graphs}"

    def _time(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain | None:
        sample_s = _SAMPLES_S[_weight_bytes(before) > _NEAR_BYTES]

        def look(budget_s: float) -> Timing:
            return time_models(
                lambda: self._runner(before),
                lambda: self._runner(after),
                budget_s=budget_s,
                cpu_clock=self.target.cpu_clock,
                sample_s=sample_s,
            )

        begun = time.monotonic()
        try:
            timing = look(self.budget_s)
            if timing.low <= _NO_LOSS and timing.high >= _GAIN:
                timing = look(_LONGER * self.budget_s)
        except Unmeasurable:
            return None
        finally:
            self.spent_s += time.monotonic() - begun
        return Gain(timing.ratio if timing.low > _NO_LOSS else timing.low, timing.low)

    def _runner(self, outputs: tuple[Term, ...]) -> Callable[[], object]:
        inputs = {
            term: var(str(term.attr("name")), concrete(term.type, self.sizes))
            for term in topological(outputs)
            if term.op == "Var"
        }
        try:
            outputs = replace(outputs, inputs)
        except IllTyped as error:
            raise Unmeasurable(f"a region at the sizes to be measured: {error}") from error
        return runner([tiny(output) for output in outputs], self.weights, self.target, opset=self.opset)


def _weight_bytes(outputs: tuple[Term, ...]) -> int:
    """Bytes of the constants that are in a graph, as they are before anything is computed of them."""
    return sum(bytes_of(term.type) for term in topological(outputs) if term.weight_only and not term.inputs)
