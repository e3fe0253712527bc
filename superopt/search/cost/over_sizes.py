"""Costs of a graph in several cases: at several values of its dynamic sizes, or on several devices.

A search has one cost for each graph, the mean over the cases, relative to the model's own cost in each. A rewrite with
a lower mean may still be slower in some case: merging two products saves time at batch 1 and costs time at batch 100.
So a rewrite is a gain only if it is not slower in any case. (The costs are a vector, and a gain lowers no component at
the expense of another.)
"""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir.term import Term
from superopt.search.cost.analytic import CostModel
from superopt.search.cost.graph_cost import GraphCost

__all__ = ["RESOLUTION", "MeanCost", "SizeGuard"]

# Times that differ by less than this share are equal, because measurements of operators are no more exact.
RESOLUTION = 0.005
_MAX_REMEMBERED_GRAPHS = 4096


class MeanCost:
    """The mean of several cost models, each with a weight."""

    def __init__(self, models: Sequence[CostModel], weights: Sequence[float]) -> None:
        self._models = list(zip(models, weights, strict=True))

    @property
    def seconds_per_weight_byte(self) -> float:
        """The mean of the models' seconds."""
        return sum(weight * model.seconds_per_weight_byte for model, weight in self._models)

    def cost(self, term: Term) -> float:
        """Return the mean of the models' seconds for the operator `term` alone."""
        return sum(weight * model.cost(term) for model, weight in self._models)


class SizeGuard:
    """Prices graphs in each of several cases, with one cost model for each; a single case needs no guard.

    Times that differ by less than the share `resolution` are equal.
    """

    def __init__(self, models: Sequence[CostModel] = (), resolution: float = RESOLUTION) -> None:
        self._models, self._resolution = models, resolution
        self._costs = [GraphCost(model) for model in models] if len(models) > 1 else []
        self._times: dict[tuple[Term, ...], list[int]] = {}

    def mean(self, outputs: Sequence[Term]) -> CostModel:
        """Return the mean of the cost models, such that the graph with these outputs costs the same in each case."""
        if not self._costs:
            return self._models[0]
        times = [max(1, time) for time in self._times_of(tuple(outputs))]
        return MeanCost(self._models, [times[0] / time / len(times) for time in times])

    def is_slower(self, after: Sequence[Term], before: Sequence[Term]) -> bool:
        """Return True if the graph with the outputs `after` is slower than that with `before` in any case."""
        if not self._costs:
            return False
        pairs = zip(self._times_of(tuple(after)), self._times_of(tuple(before)), strict=True)
        return any(now > had * (1 + self._resolution) for now, had in pairs)

    def _times_of(self, outputs: tuple[Term, ...]) -> list[int]:
        found = self._times.get(outputs)
        if found is None:
            if len(self._times) >= _MAX_REMEMBERED_GRAPHS:
                self._times.clear()
            found = self._times[outputs] = [costs.price(outputs).time_ps for costs in self._costs]
        return found
