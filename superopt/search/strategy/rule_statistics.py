"""Statistics of the rules that searches begin with, learned while the regions of one model are searched.

Regions of one model are alike: a rule that leads nowhere in several of them is not worth trying in more.
"""

from __future__ import annotations

__all__ = ["RuleStatistics"]

# Failed local beam searches that may begin with one rule, in all regions together: this many, and as many more for each
# one that improved a region.
_MAX_FAILED_BEAM_SEARCHES = 3
# Expansions without improvement after which a region's search stops. The small limit applies once failed beam searches
# of all regions have expanded more graphs than are credited: this many, and as many more for each that improved.
_STALL_LIMIT, _SMALL_STALL_LIMIT, _CREDIT_PER_IMPROVEMENT = 50, 10, 30
# A rule is unreliable once the speed-up predicted for it was not measured in this many regions.
_MAX_BROKEN_PREDICTIONS = 2


class RuleStatistics:
    """Counts the outcomes of local beam searches and backjumps by the rule that they began with."""

    def __init__(self) -> None:
        self._failures: dict[tuple[int, str], int] = {}
        self._improvements: dict[str, int] = {}
        self._broken_predictions: dict[str, int] = {}
        self._credit = _CREDIT_PER_IMPROVEMENT  # expansions that failing searches may still take

    @property
    def stall_limit(self) -> int:
        """Expansions without improvement after which a region's search stops.

        The limit is small if beam searches have failed in the first regions, which are the most expensive ones.
        """
        return _STALL_LIMIT if self._credit > 0 else _SMALL_STALL_LIMIT

    def record_broken_prediction(self, rule: str) -> None:
        """Record that a measurement did not confirm the predicted speed-up of steps with this rule."""
        self._broken_predictions[rule] = self._broken_predictions.get(rule, 0) + 1

    def is_unreliable(self, rule: str) -> bool:
        """Return True if predictions for the rule were broken in several regions."""
        return self._broken_predictions.get(rule, 0) >= _MAX_BROKEN_PREDICTIONS

    def has_improved(self, rule: str) -> bool:
        """Return True if a search that began with the rule has improved a region."""
        return rule in self._improvements

    def allows(self, effort: int, rule: str) -> bool:
        """Return True if another search may begin with the rule at this effort."""
        limit = _MAX_FAILED_BEAM_SEARCHES * (1 + self._improvements.get(rule, 0))
        return self._failures.get((effort, rule), 0) < limit

    def record(self, effort: int, rule: str, improved: bool, expansions: int) -> None:
        """Record the outcome of a search that began with the rule and expanded so many graphs."""
        self._credit += _CREDIT_PER_IMPROVEMENT if improved else -expansions
        if improved:
            self._improvements[rule] = self._improvements.get(rule, 0) + 1
        else:
            self._failures[effort, rule] = self._failures.get((effort, rule), 0) + 1
