"""The search's budget, counted in work done rather than in elapsed time.

So the result does not depend on the load of the machine, or on proofs and measurements made during the run. The clock
only ends a search that takes much longer than its budget.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

__all__ = ["EffortBudget"]

# Seconds to expand a graph: a constant, plus a time for each of its terms and each of its rewrites. On a CPU of 2020.
_GRAPH_SECONDS, _TERM_SECONDS, _REWRITE_SECONDS = 5e-4, 3e-5, 1.5e-4
# The search takes at most this many times its budget by the clock.
_MAX_CLOCK_FACTOR = 2.0


class EffortBudget:
    """A budget of `limit_s` seconds on a typical machine; `spent_s` seconds of it are spent.

    `spent_s` becomes infinite when the clock has run far beyond the limit. Seconds of measuring do not count;
    `measuring_s` returns those so far.
    """

    def __init__(self, limit_s: float = math.inf, measuring_s: Callable[[], float] = lambda: 0.0) -> None:
        self.limit_s, self._measuring_s, self._begun = limit_s, measuring_s, time.monotonic()
        self.spent_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds by the clock since the search began, without measuring."""
        return time.monotonic() - self._begun - self._measuring_s()

    @property
    def exhausted(self) -> bool:
        """True if the budget is spent."""
        if self.elapsed_s > _MAX_CLOCK_FACTOR * self.limit_s:
            self.spent_s = math.inf
        return self.spent_s >= self.limit_s

    def charge_expansion(self, terms: int, rewrites: int) -> None:
        """Charge the expansion of a graph of `terms` terms that had `rewrites` rewrites."""
        self.spent_s += _GRAPH_SECONDS + terms * _TERM_SECONDS + rewrites * _REWRITE_SECONDS
