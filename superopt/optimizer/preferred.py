"""Which costs led to the better result, remembered, so that a repeated run searches on those alone.

Measured costs know kernels, and the timings of regions what the runtime makes of them; but a region is judged by
itself, and where small parts of a block are not worth their while, the block as a whole may be. The analytic model has
no such scruples. So both searches are made, their results are timed, and the faster one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from superopt.optimizer.engine import COSTS, Request
from superopt.search import CostCache
from superopt.search.machine import conditions

__all__ = ["Preferred"]

_FORMAT = 1  # of the entry; a change makes old ones void


class Preferred:
    """The costs to search on for `request`, whose results are timed for about `measure_s` seconds each; what became of
    them is kept in the cache of costs (at `path`, where that is given). With `anew` nothing earlier counts."""

    def __init__(self, request: Request, measure_s: float, *, anew: bool = False, path: Path | None = None) -> None:
        self._anew, self._path = anew, path
        self._costs = COSTS if request.cost == "measured" else (request.cost,)
        where = conditions(request.target, request.model.opset)
        self._key = f"{_FORMAT}|{where}|costs|{measure_s}|{request.name}"

    @property
    def costs(self) -> Sequence[str]:
        """Those that an earlier run found better, else all that there are."""
        if len(self._costs) > 1 and not self._anew:
            with closing(CostCache(self._path)) as cache:
                known = cache.get(self._key)
            if known is not None and known < len(COSTS):
                return (COSTS[int(known)],)
        return self._costs

    def remember(self, cost: str) -> None:
        """That the search on `cost` led to the better result."""
        if len(self._costs) > 1:
            with closing(CostCache(self._path)) as cache:
                cache.put(self._key, float(COSTS.index(cost)))
