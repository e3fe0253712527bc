"""Which search led to the best result, remembered, so that a repeated run makes that one alone.

Costs of operators do not know what the runtime makes of their neighbours; timings of regions do, but they are short,
and what is worth one in a hundred there is lost in their noise; the analytic model knows neither, and has no noise.
Each of them is right for some models. So a search is made on each, the results are timed whole, and the fastest counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from superopt.optimizer.engine import Request
from superopt.search import CostCache
from superopt.search.cost.measurement_key import conditions

__all__ = ["Preferred", "Way"]

_FORMAT = 1  # of the entry; a change makes old ones void


@dataclass(frozen=True)
class Way:
    """How to search: on which costs, and whether `regions` are timed as well; `name` says so of a result."""

    name: str
    cost: str
    regions: bool = False

    def of(self, request: Request) -> Request:
        """`request`, to be searched this way."""
        return replace(request, cost=self.cost, regions=self.regions)


_MEASURED = (
    Way("", "measured", regions=True),
    Way(", no region timed", "measured"),
    Way(", by analytic costs", "analytic"),
)


class Preferred:
    """The ways to search for `request`, whose results are timed for about `measure_s` seconds each; which was best
    is kept in the cache of costs (at `path`, where that is given). With `anew` nothing earlier counts."""

    def __init__(self, request: Request, measure_s: float, *, anew: bool = False, path: Path | None = None) -> None:
        self._anew, self._path = anew, path
        self._ways = _MEASURED if request.cost == "measured" else (Way("", request.cost),)
        where = conditions(request.target, request.model.opset)
        self._key = f"{_FORMAT}|{where}|way|{measure_s}|{request.name}"

    @property
    def ways(self) -> Sequence[Way]:
        """The one that an earlier run found best, else all that there are."""
        if len(self._ways) > 1 and not self._anew:
            with closing(CostCache(self._path)) as cache:
                known = cache.get(self._key)
            if known is not None and known < len(self._ways):
                return (self._ways[int(known)],)
        return self._ways

    def remember(self, way: Way) -> None:
        """That `way` led to the best result."""
        if len(self._ways) > 1:
            with closing(CostCache(self._path)) as cache:
                cache.put(self._key, float(self._ways.index(way)))
