"""Chooses a result for each region: the search proposes graphs by predicted cost, a timing of the region decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from superopt.ir.infer import replace
from superopt.ir.term import Term
from superopt.search.cost.region_timer import Gain, RegionTimer, Untimed
from superopt.search.region import Region
from superopt.search.strategy.effort_budget import EffortBudget
from superopt.search.strategy.region_tasks import RegionTask
from superopt.search.strategy.state import SearchState

__all__ = ["MIN_GAIN_RATIO", "MIN_SURE_GAIN_RATIO", "Choice", "ResultChooser", "time_in_place"]

# A rewrite is kept if its measured speed-up, or the lower end of that speed-up's 95% interval, is at least this.
MIN_GAIN_RATIO, MIN_SURE_GAIN_RATIO = 1.02, 1.005
_MAX_TIMED_CANDIDATES = 3
# Where no time is left to measure, a predicted speed-up of at least this is believed.
_MIN_BELIEVED_SPEEDUP = 1.1

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
            elif best.price.time_ps < start.price.time_ps:
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
                    if self._budget.exhausted:
                        raise Untimed
                    gain = time_in_place(task.occurrences[0], state.outputs, timer)
                except Untimed:
                    return state if search.predicted_speedup >= _MIN_BELIEVED_SPEEDUP else None
                if gain is None or gain.sure_ratio >= MIN_GAIN_RATIO or gain.low >= MIN_SURE_GAIN_RATIO:
                    return state
            if search.best is search.start:
                break
        return None


def time_in_place(region: Region, outputs: tuple[Term, ...], timer: RegionTimer) -> Gain | None:
    """Return the measured speed-up of `outputs` in the place of the region's graph, with the model's weights.

    Returns None if the graphs cannot run on their own. Raises Untimed.
    """
    weights = {leaf: term for leaf, term in region.leaves if leaf.op == "Const"}
    return timer(replace(region.outputs, weights), replace(outputs, weights))
