"""How long a search has searched, by what it did and not by a clock.

So a run ends where an earlier one has, which had rules to prove on its way, or the machine for itself. A clock has a
say only where machine or proofs are so slow that the user would wait in vain.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

__all__ = ["Meter"]

# Seconds of expanding one graph, for each of its terms and for each of its moves, on a core of 2020 or so.
_GRAPH_S, _TERM_S, _MOVE_S = 5e-4, 3e-5, 1.5e-4
# The search takes so many times its budget at most, by the clock.
_SLOWEST = 2.0


class Meter:
    """`spent_s` are the seconds of searching; infinite where there is nothing left of `budget_s` by the clock, from
    whose time that of `measuring` (seconds so far) is taken away."""

    def __init__(self, budget_s: float = math.inf, measuring: Callable[[], float] = lambda: 0.0) -> None:
        self.budget_s, self._measuring, self._begun = budget_s, measuring, time.monotonic()
        self.spent_s = 0.0

    @property
    def clock_s(self) -> float:
        """Seconds since the search began, without measuring."""
        return time.monotonic() - self._begun - self._measuring()

    @property
    def over(self) -> bool:
        """Whether the budget is spent."""
        if self.clock_s > _SLOWEST * self.budget_s:
            self.spent_s = math.inf
        return self.spent_s >= self.budget_s

    def expand(self, terms: int, moves: int) -> None:
        """Counts a graph of so many terms that was expanded to so many moves."""
        self.spent_s += _GRAPH_S + terms * _TERM_S + moves * _MOVE_S
