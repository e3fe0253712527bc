"""Search strategies: the costs that guide a search, and the memory of the strategy that was best for a request.

No source of costs is right for every model. Costs of single operators miss interactions with neighbouring operators,
such as fusion. Timings of regions include them, but they are short, and a gain of one percent is lost in their noise.
The analytic model includes neither, but has no noise. So one search is made with each source, the results are timed as
whole models, and the fastest is selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from superopt.store import ResultStore, StrategyKey, StrategyName

__all__ = ["Strategy", "StrategyMemory", "strategies_for"]


@dataclass(frozen=True)
class Strategy:
    """Costs that guide a search.

    `cost` is one of COST_SOURCES. With `time_regions`, rewritten regions are also timed as separate models.
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
    """Return the strategies to try for a source of costs, one of COST_SOURCES."""
    return _MEASURED if cost == "measured" else (Strategy(cost, cost),)


class StrategyMemory:
    """The strategy that gave the fastest result for a search request in an earlier run, kept in `store` at `key`."""

    def __init__(self, strategies: Sequence[Strategy], key: StrategyKey, store: ResultStore) -> None:
        self._strategies, self._key, self._store = tuple(strategies), key, store

    def recall(self) -> tuple[Strategy, ...]:
        """Return only the strategy that was best in an earlier run, or all strategies if none is known."""
        known = self._store.preferred_strategies.get(self._key)
        found = tuple(strategy for strategy in self._strategies if known and strategy.name == known.name)
        return found or self._strategies

    def remember(self, strategy: Strategy) -> None:
        """Store `strategy` as the one that gave the fastest result."""
        if len(self._strategies) > 1:
            self._store.preferred_strategies.put(self._key, StrategyName(strategy.name))
