"""The search's budget, counted in work done rather than in elapsed time.

So the result does not depend on the load of the machine, or on proofs and measurements made during the run, unless the
clock ends the search: a run as a whole has a budget of wall time.
"""

from __future__ import annotations

import math
import time

__all__ = ["EffortBudget"]

# Seconds to expand a graph: a constant, plus a time for each of its terms and each of its rewrites. On a CPU of 2020.
_GRAPH_SECONDS, _TERM_SECONDS, _REWRITE_SECONDS = 5e-4, 3e-5, 1.5e-4


class EffortBudget:
    """A budget of `limit_s` seconds on a typical machine; `spent_s` seconds of it are spent.

    `spent_s` becomes infinite at the time `deadline` of `time.monotonic`.
    """

    def __init__(self, limit_s: float = math.inf, deadline: float = math.inf) -> None:
        self.limit_s, self._deadline, self._begun = limit_s, deadline, time.monotonic()
        self.spent_s = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds by the clock since the search began."""
        return time.monotonic() - self._begun

    @property
    def exhausted(self) -> bool:
        """True if the budget is spent."""
        if time.monotonic() > self._deadline:
            self.spent_s = math.inf
        return self.spent_s >= self.limit_s

    def charge_expansion(self, terms: int, rewrites: int) -> None:
        """Charge the expansion of a graph of `terms` terms that had `rewrites` rewrites."""
        self.spent_s += _GRAPH_SECONDS + terms * _TERM_SECONDS + rewrites * _REWRITE_SECONDS
