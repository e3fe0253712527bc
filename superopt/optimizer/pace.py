"""The pace of one run: its budget of wall time, divided among its phases.

A phase that comes late is not skipped: the search has at least a part of the budget, and a measurement as many runs as
say something. So a run takes longer than its budget where the model cannot be read, compared and timed within it.
"""

from __future__ import annotations

import os
import time

__all__ = ["Pace", "busyness"]

# Of the budget, to measure the machine on first use. A quiet machine takes 6 to 7 s. A noisy one took all of 12 s, so
# that a default run had 8 s left to measure its result, which it refused for noise (bge_small: 4 pairs of sessions).
_CALIBRATION = 0.2
# Shares of the budget: work of the search (on a typical machine), its least time by the clock, and the least time with
# the timing of regions, for which the search leaves a share.
_SEARCH_WORK, _LEAST_SEARCH, _LEAST_REGIONS, _REGIONS = 0.25, 0.15, 0.2, 0.1
_UNTIMED_SEARCH_WORK = 0.6  # where neither the machine is measured nor a candidate
# What follows is the replay and the measurements, a share of the budget, and the comparison of outputs, which takes
# longer than the runs of the original by up to this factor.
_CHECKS, _COMPARISON = 0.3, 2.0
# Shares of the budget for a run that an earlier one has searched for: in all, and at least for the checks.
_WITHOUT_SEARCH, _LEAST_CHECKS = 0.45, 0.15
# Shares of the time that is left: for one measurement to choose, and for one to accept.
_CHOICE, _ACCEPTANCE = 0.25, 0.95
_LEAST_MEASUREMENT_SHARE = 0.05  # of the budget
# Where the runs of the original take a larger share of the budget, or less of it is left, candidates are measured only
# to accept them. An estimate before saves time where it refuses a candidate, and adds half of the time where it
# does not.
_LONG_REFERENCE = 0.2
_REFERENCES = 0.4  # of the time that is left, for evaluations in float64 before a comparison


_BUSIEST = 2.0  # a run on a busy machine may take so many times as long


def busyness() -> float:
    """Return how many processes want to run for each core, by the last minute: 1 if they all can, at most 2."""
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # this system does not tell
        return 1.0
    return min(_BUSIEST, max(1.0, load / (os.cpu_count() or 1)))


class Pace:
    """The clock of a run with a budget of `budget_s` seconds, which begins now. A run may time nothing.

    It may take `slack` times as long as its budget, if it does not get a core for itself. Its search is not to do more
    work for that.
    """

    def __init__(self, budget_s: float, *, is_timed: bool = True, slack: float = 1.0) -> None:
        self._work_s = budget_s
        self._budget_s, self._begun = budget_s * slack, time.monotonic()
        self._is_timed, self._counted_as_spent_s = is_timed, 0.0
        self._search_work = _SEARCH_WORK if is_timed else _UNTIMED_SEARCH_WORK
        self.reference_s = 0.0  # the time that the runs of the original took, with all inputs

    @property
    def left_s(self) -> float:
        """Seconds of the budget that are left, at least 0."""
        return max(0.0, self._begun + self._budget_s - self._counted_as_spent_s - time.monotonic())

    def leave_checks(self) -> None:
        """Count all time as spent but that for the checks of the result: an earlier run has searched."""
        spent = time.monotonic() - self._begun
        checks = min(self._checks_s, max(_WITHOUT_SEARCH * self._budget_s - spent, _LEAST_CHECKS * self._budget_s))
        self._counted_as_spent_s += max(0.0, self.left_s - checks)

    @property
    def calibration_s(self) -> float:
        """Seconds for measuring the machine, if no earlier run has."""
        return _CALIBRATION * self._budget_s

    @property
    def search_work_s(self) -> float:
        """The search's budget in seconds of work on a typical machine."""
        return self._search_work * self._work_s

    def search_deadline(self, share: float = 1.0) -> float:
        """Return the time of `time.monotonic` at which a search that has this share of the time ends."""
        return self._deadline(_REGIONS if self._is_timed else 0.0, _LEAST_SEARCH, share)

    def regions_deadline(self, share: float = 1.0) -> float:
        """Return the time of `time.monotonic` after which that search times no region."""
        return self._deadline(0.0, _LEAST_REGIONS, share)

    def _deadline(self, left: float, least: float, share: float) -> float:
        """Return the time at which a share `left` of the budget is left besides that for the checks of the result."""
        seconds = self.left_s - self._checks_s - left * self._budget_s
        return time.monotonic() + share * max(seconds, least * self._budget_s)

    @property
    def _checks_s(self) -> float:
        return _CHECKS * self._budget_s + _COMPARISON * self.reference_s

    @property
    def has_time_for_another(self) -> bool:
        """True if there is time to compare another candidate and, in a run that times it, to measure it."""
        if not self._is_timed:  # it compares on few inputs
            return self.left_s > self.reference_s
        return self.left_s > _COMPARISON * self.reference_s + _LEAST_MEASUREMENT_SHARE * self._budget_s

    @property
    def has_time_to_estimate(self) -> bool:
        """True if candidates are to be estimated before they are measured to accept them."""
        return self.reference_s <= _LONG_REFERENCE * self._budget_s <= self.left_s

    @property
    def references_s(self) -> float:
        """Seconds for evaluations of the original in float64 before a candidate is compared with it."""
        return _REFERENCES * self.left_s

    @property
    def choice_s(self) -> float:
        """Seconds for a measurement to choose among candidates."""
        return self._measurement_s(_CHOICE)

    @property
    def acceptance_s(self) -> float:
        """Seconds for a measurement to accept a candidate."""
        return self._measurement_s(_ACCEPTANCE)

    def _measurement_s(self, share: float) -> float:
        return max(share * self.left_s, _LEAST_MEASUREMENT_SHARE * self._budget_s)
