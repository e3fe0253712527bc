"""Measured cost model: each operator is measured once on the target, and its time is stored for later runs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from superopt.ir.infer import OPERATORS
from superopt.ir.term import Term
from superopt.runtime import Target
from superopt.search.cost.analytic import AnalyticCost, CostModel
from superopt.search.cost.device import device_of
from superopt.search.cost.measurement_key import conditions
from superopt.search.cost.microbench import Unmeasurable, Unrunnable
from superopt.search.cost.operator_form import describe, isolated, lookup_key
from superopt.search.cost.operator_timer import OperatorTimer
from superopt.store import EstimateKey, OperatorKey, ResultStore, Seconds

__all__ = ["MeasuredCost"]

# Measurements read weights from a warm cache. Whole models were seen to stream weights from memory at 36 to 44 GB/s.
_SECONDS_PER_WEIGHT_BYTE = 2.5e-11
# Cost of an operator that the runtime cannot run: more than any rewrite gains.
_UNRUNNABLE_SECONDS = 1e3


@dataclass
class _SourceCounts:
    """Numbers of operators by where their cost came from."""

    measured: int = 0
    cached: int = 0
    estimated: int = 0


class MeasuredCost:
    """Costs by measurement, and by an analytic model where there is no measurement.

    Three kinds of operators are estimated: operators outside the rules' language, operators that cannot be run alone,
    and all operators once `budget_s` seconds were spent on measuring. An estimate is scaled by the median ratio of
    measurement to estimate for the same kind of operator. Estimates made for lack of time are stored under the name
    `run`, so that a repetition of the run sees the same costs.

    An operator that the runtime cannot run costs more than any rewrite gains, unless it is one of the operators
    `present` in the model, because the model runs. `sizes` has the values of symbolic sizes. `counts` tells where costs
    came from.
    """

    seconds_per_weight_byte = _SECONDS_PER_WEIGHT_BYTE

    def __init__(
        self,
        target: Target,
        *,
        sizes: Mapping[str, int] | None = None,
        opset: int = 17,
        store: ResultStore | None = None,
        fallback: CostModel | None = None,
        budget_s: float = math.inf,
        run: str = "",
        present: Iterable[Term] = (),
    ) -> None:
        self.target, self.sizes, self.budget_s, self.run = target, dict(sizes or {}), budget_s, run
        self._present = {_kernel(term) for term in present}
        self.fallback = fallback or AnalyticCost(device_of(target.device), target.threads, self.sizes)
        self.store = store or ResultStore()
        self.counts = _SourceCounts()
        self.spent_s = 0.0
        self._conditions = conditions(target, opset)
        self._timer = OperatorTimer(target, opset, self.store, self.fallback)
        self._known: dict[OperatorKey, float] = {}
        self._store_keys: dict[tuple[object, ...], OperatorKey] = {}  # by lookup key
        self._ratios: dict[str, list[float]] = {}

    def cost(self, term: Term) -> float:
        """Return the seconds for the operator `term` alone."""
        if term.is_constant or term.op in ("Var", "Out"):
            return 0.0
        if term.op not in OPERATORS:
            return self.fallback.cost(term)
        alike = lookup_key(term)
        key = self._store_keys.get(alike)
        if key is not None and (seconds := self._known.get(key)) is not None:
            return seconds
        try:
            alone = isolated(term, self.sizes)
        except Unmeasurable:
            return self._estimate(term)
        key = self._store_keys[alike] = OperatorKey(self._conditions, describe(alone))
        if key not in self._known:
            self._known[key] = self._look_up(term, alone, key)
        return self._known[key]

    def _look_up(self, term: Term, alone: Term, key: OperatorKey) -> float:
        """Return the stored seconds, else a measurement, else an estimate."""
        estimate_key = EstimateKey(self.run, *key)
        # An estimate of the same run comes first, whatever other runs have measured since.
        if self.run and (row := self.store.operator_estimates.get(estimate_key)):
            self.counts.estimated += 1
            return row.seconds
        if row := self.store.operator_costs.get(key):
            seconds = row.seconds
            self.counts.cached += 1
        elif self.spent_s > self.budget_s:
            seconds = self._estimate(term)
            if self.run:
                self.store.operator_estimates.put(estimate_key, Seconds(seconds))
            return seconds
        else:
            begun = time.monotonic()
            try:
                seconds = self._timer.seconds(alone)
                self.counts.measured += 1
            except Unrunnable:
                seconds = _UNRUNNABLE_SECONDS
            except Unmeasurable:
                seconds = math.inf
            self.store.operator_costs.put(key, Seconds(seconds))
            self.spent_s += time.monotonic() - begun
        if seconds == _UNRUNNABLE_SECONDS and _kernel(term) not in self._present:
            return seconds
        if seconds == _UNRUNNABLE_SECONDS or math.isinf(seconds):
            return self._estimate(term)
        self._ratios.setdefault(term.op, []).append(seconds / self.fallback.cost(term))
        return seconds

    def _estimate(self, term: Term) -> float:
        self.counts.estimated += 1
        ratios = self._ratios.get(term.op)
        return self.fallback.cost(term) * (statistics.median(ratios) if ratios else 1.0)


def _kernel(term: Term) -> tuple[str, str | None]:
    """Return the operator and the element type: the runtime has kernels for some of these pairs."""
    return term.op, None if term.type is None else term.type.dtype
