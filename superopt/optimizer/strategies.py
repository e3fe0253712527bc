"""Search strategies: the costs that guide a search, and the memory of the strategy that was best for a request.

No source of costs is right for every model. Costs of single operators do not show what the runtime does with
neighbouring operators. Timings of regions do, but they are short, and a gain of one percent is lost in their noise. The
analytic model shows neither, but has no noise. So one search is made with each, the results are timed as whole models,
and the fastest is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from superopt.search import CostCache

__all__ = ["Strategy", "StrategyMemory", "strategies_for"]

_FORMAT = 1  # of the entry; a change makes old ones void


@dataclass(frozen=True)
class Strategy:
    """Costs that guide a search: `cost` is one of COST_SOURCES; with `time_regions` rewritten regions are timed as
    models of their own as well. `label` is appended to the name of a candidate."""

    label: str
    cost: str
    time_regions: bool = False


_MEASURED = (
    Strategy("", "measured", time_regions=True),
    Strategy(", no region timed", "measured"),
    Strategy(", by analytic costs", "analytic"),
)


def strategies_for(cost: str) -> tuple[Strategy, ...]:
    """Strategies to try for a source of costs, one of COST_SOURCES."""
    return _MEASURED if cost == "measured" else (Strategy("", cost),)


class StrategyMemory:
    """The strategy that gave the fastest result for a search request in an earlier run.

    `conditions` and `request` identify the machine and the search; `measure_s` is the length of a measurement in
    seconds. Kept in the user's cache (at `path`, where that is given).
    """

    def __init__(
        self,
        strategies: Sequence[Strategy],
        conditions: str,
        request: str,
        measure_s: float,
        path: Path | None = None,
    ) -> None:
        self._strategies, self._path = tuple(strategies), path
        self._key = f"{_FORMAT}|{conditions}|way|{measure_s}|{request}"

    def recall(self) -> tuple[Strategy, ...]:
        """Return the strategy that was best in an earlier run, alone; all strategies where none is known."""
        if len(self._strategies) > 1:
            with closing(CostCache(self._path)) as cache:
                known = cache.get(self._key)
            if known is not None and known < len(self._strategies):
                return (self._strategies[int(known)],)
        return self._strategies

    def remember(self, strategy: Strategy) -> None:
        """Store `strategy` as the one that gave the fastest result."""
        if len(self._strategies) > 1:
            with closing(CostCache(self._path)) as cache:
                cache.put(self._key, float(self._strategies.index(strategy)))
