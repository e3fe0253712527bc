"""Searches the distinct regions of a pass and divides the budget among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from superopt.ir.term import Term
from superopt.search.region import Region
from superopt.search.strategy.region_search import RegionSearch
from superopt.search.strategy.search_context import SearchContext

__all__ = ["RegionPool", "RegionTask"]


@dataclass
class RegionTask:
    """A distinct region of a pass: its search, and the places where it occurs."""

    search: RegionSearch
    occurrences: list[Region] = field(default_factory=list)

    @property
    def weight(self) -> float:
        """The region's weight in the division of the budget: its cost times the square root of its occurrences."""
        return float(self.search.best.price.time_ps * len(self.occurrences) ** 0.5)

    @property
    def time_ps(self) -> int:
        """Picoseconds that the region takes, wherever it occurs, by the cost model."""
        return self.search.best.price.time_ps * len(self.occurrences)

    @property
    def predicted_saving_ps(self) -> int:
        """Picoseconds that the best graph saves in all occurrences, by the cost model."""
        return self.search.predicted_saving_ps * len(self.occurrences)


class RegionPool:
    """The searches of the regions of all passes so far. Equal regions have one search."""

    def __init__(self, context: SearchContext, *, alpha: float, efforts: int, max_expansions: int) -> None:
        self._context, self._alpha, self._efforts = context, alpha, efforts
        self._max_expansions = max_expansions
        self.searches: dict[tuple[Term, ...], RegionSearch] = {}
        self._finished: set[tuple[Term, ...]] = set()

    def mark_finished(self, outputs: tuple[Term, ...]) -> None:
        """Exclude this region from further tasks, because it is the result of a search."""
        self._finished.add(outputs)

    @property
    def all_exhausted(self) -> bool:
        """True if all searches ended by themselves."""
        return all(search.exhausted for search in self.searches.values())

    def tasks(self, regions: Sequence[Region], at_seams: bool = False) -> list[RegionTask]:
        """Return one task for each distinct region. With `at_seams`, new searches begin at the seams of the regions."""
        tasks: dict[tuple[Term, ...], RegionTask] = {}
        seams: dict[tuple[Term, ...], frozenset[Term]] = {}
        for region in regions:
            seams[region.outputs] = seams.get(region.outputs, frozenset()) | region.seams
        for region in regions:
            if region.outputs in self._finished:
                continue
            if region.outputs not in tasks:
                if region.outputs not in self.searches:
                    self.searches[region.outputs] = RegionSearch(
                        region.outputs,
                        self._context,
                        alpha=self._alpha,
                        efforts=self._efforts,
                        max_expansions=self._max_expansions,
                        focus=seams[region.outputs] if at_seams else None,
                    )
                tasks[region.outputs] = RegionTask(self.searches[region.outputs])
            tasks[region.outputs].occurrences.append(region)
        return list(tasks.values())

    def improve(self, tasks: Sequence[RegionTask], until_s: float, report: Callable[[int], None]) -> None:
        """Make effort after effort, each for all tasks, until `until_s` seconds of the budget are spent.

        After each search, `report` is called with the number of tasks that have completed the current effort.
        """
        budget = self._context.budget
        total_ps = sum(task.time_ps for task in tasks) or 1
        for task in tasks:
            task.search.share = task.time_ps / total_ps
        for effort in range(max(1, self._efforts)):
            waiting = sorted((t for t in tasks if t.search.effort == effort), key=lambda t: -t.weight)
            for k, task in enumerate(waiting):
                now = budget.spent_s
                if budget.exhausted or now >= until_s:
                    return
                share = task.weight / (sum(t.weight for t in waiting[k:]) or 1.0)
                task.search.improve(now + (until_s - now) * share)
                report(sum(t.search.effort > effort for t in tasks))
