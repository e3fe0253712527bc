"""Chooses a result for each region: the search proposes graphs by predicted cost, a timing of the region corrects it.

Both are uncertain: a prediction by the model's error, a timing by noise. They are combined as two independent normal
measurements of the same logarithm, each weighted by its precision (the inverse of its variance). So a narrow timing
decides alone, and one that noise has spoilt leaves the decision to the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from superopt.ir.infer import replace
from superopt.ir.term import Term
from superopt.search.cost.region_timer import Gain, RegionTimer, Untimed
from superopt.search.region import Region
from superopt.search.strategy.effort_budget import EffortBudget
from superopt.search.strategy.region_tasks import RegionTask
from superopt.search.strategy.state import SearchState

__all__ = ["MIN_GAIN_RATIO", "MIN_SURE_GAIN_RATIO", "Choice", "ResultChooser", "combined_gain", "time_in_place"]

# The least gains for which a rewrite is taken that no timing, or no prediction, supports.
MIN_GAIN_RATIO, MIN_SURE_GAIN_RATIO = 1.02, 1.005
_MAX_TIMED_CANDIDATES = 3
# Where no time is left to measure, a predicted speed-up of at least this is believed.
_MIN_BELIEVED_SPEEDUP = 1.1
# A result is kept if the combined speed-up is at least this.
_MIN_COMBINED_GAIN = math.log(1.005)
# Standard deviation of a predicted speed-up's logarithm: a constant, and a share of the logarithm.
_PREDICTION_ERROR, _PREDICTION_ERROR_SHARE = 0.02, 0.5
_INTERVAL = 1.96  # standard deviations from a timing's ratio to the end of its interval
_MIN_TIMING_ERROR = 0.003  # a region in its model differs from one that is timed alone

# The state to use for each region, by the region's outputs.
Choice: TypeAlias = Mapping[tuple[Term, ...], SearchState]


class ResultChooser:
    """Chooses the result of each region. Without a `timer`, the cheapest graph by the cost model is chosen.

    Decisions are remembered, so that no rewrite of a region is timed twice.
    """

    def __init__(self, timer: RegionTimer | None, budget: EffortBudget) -> None:
        self._timer, self._budget = timer, budget
        self._decisions: dict[tuple[tuple[Term, ...], tuple[Term, ...]], SearchState | None] = {}

    def choose(self, tasks: Sequence[RegionTask]) -> dict[tuple[Term, ...], SearchState]:
        """Map the outputs of each region with a result to that result. Regions that save most are timed first."""
        chosen: dict[tuple[Term, ...], SearchState] = {}
        for task in sorted(tasks, key=lambda task: -task.predicted_saving_ps):
            start, best = task.search.start, task.search.best
            if self._timer is not None:
                key = (start.outputs, best.outputs)
                if key not in self._decisions:
                    self._decisions[key] = self._timed(task, self._timer)
                timed = self._decisions[key]
                if timed is not None:
                    chosen[start.outputs] = timed
            elif best.price[:2] < start.price[:2]:  # in time, or in operators at the same time
                chosen[start.outputs] = best
        return chosen

    def _timed(self, task: RegionTask, timer: RegionTimer) -> SearchState | None:
        """Return the first candidate that is measured to be faster.

        If there is none, search once more without the rule with the largest predicted saving. If a candidate cannot be
        timed on its own, the cost model decides.
        """
        search = task.search
        for again in (False, True):
            if again:
                search.restart_without_best_rule()
                while not search.exhausted and search.improve(self._budget.limit_s):
                    pass
            for state in search.candidates()[:_MAX_TIMED_CANDIDATES]:
                try:
                    gain = time_in_place(task.occurrences[0], state.outputs, timer)
                except Untimed:
                    return state if search.predicted_speedup >= _MIN_BELIEVED_SPEEDUP else None
                predicted = search.start.price.time_ps / max(1, state.price.time_ps)
                if gain is None or combined_gain(predicted, gain) >= _MIN_COMBINED_GAIN:
                    return state
            if search.best is search.start:
                break
        return None


def combined_gain(predicted: float, timed: Gain) -> float:
    """Return the logarithm of the speed-up, from a predicted speed-up and a timed one."""
    prior, found = math.log(predicted), math.log(timed.ratio)
    prior_error = _PREDICTION_ERROR + _PREDICTION_ERROR_SHARE * abs(prior)
    error = max(_MIN_TIMING_ERROR, (found - math.log(timed.low)) / _INTERVAL)
    weights = prior_error**-2, error**-2
    return (weights[0] * prior + weights[1] * found) / sum(weights)


def time_in_place(region: Region, outputs: tuple[Term, ...], timer: RegionTimer) -> Gain | None:
    """Return the measured speed-up of `outputs` in the place of the region's graph, with the model's weights.

    Returns None if the graphs cannot run on their own. Raises Untimed.
    """
    weights = {leaf: term for leaf, term in region.leaves if leaf.op == "Const"}
    return timer(replace(region.outputs, weights), replace(outputs, weights))
