"""Search strategies: the costs that guide a search, and the memory of the strategy that was best for a request.

No source of costs is right for every model. Costs of single operators do not show what the runtime does with
neighbouring operators. Timings of regions do, but they are short, and a gain of one percent is lost in their noise. The
analytic model shows neither, but has no noise. So one search is made with each, the results are timed as whole models,
and the fastest is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from superopt.store import ResultStore, StrategyKey, StrategyName

__all__ = ["Strategy", "StrategyMemory", "strategies_for"]


@dataclass(frozen=True)
class Strategy:
    """Costs that guide a search.

    `cost` is one of COST_SOURCES. With `time_regions` rewritten regions are timed as models of their own as well.
    `label` is appended to the names of its candidates.
    """

    name: str
    cost: str
    time_regions: bool = False
    label: str = ""


_MEASURED = (
    Strategy("timed regions", "measured", time_regions=True),
    Strategy("measured operators", "measured", label=", no region timed"),
    Strategy("analytic", "analytic", label=", by analytic costs"),
)


def strategies_for(cost: str) -> tuple[Strategy, ...]:
    """Strategies to try for a source of costs, one of COST_SOURCES."""
    return _MEASURED if cost == "measured" else (Strategy(cost, cost),)


class StrategyMemory:
    """The strategy that gave the fastest result for a search request in an earlier run, kept in `store` at `key`."""

    def __init__(self, strategies: Sequence[Strategy], key: StrategyKey, store: ResultStore) -> None:
        self._strategies, self._key, self._store = tuple(strategies), key, store

    def recall(self) -> tuple[Strategy, ...]:
        """Return the strategy that was best in an earlier run, alone; all strategies where none is known."""
        known = self._store.preferred_strategies.get(self._key)
        found = tuple(strategy for strategy in self._strategies if known and strategy.name == known.name)
        return found or self._strategies

    def remember(self, strategy: Strategy) -> None:
        """Store `strategy` as the one that gave the fastest result."""
        if len(self._strategies) > 1:
            self._store.preferred_strategies.put(self._key, StrategyName(strategy.name))
