"""Rule statistics: the successes and failures of the searches that began with each rule, over a model's regions.

The regions of one model are similar: a rule whose searches failed in several regions is not tried in more of them.
"""

from __future__ import annotations

__all__ = ["RuleStatistics"]

# Limit of failed local beam searches that began with one rule, in all regions together. Each search with the rule that
# improved a region raises the limit by the same number.
_MAX_FAILED_BEAM_SEARCHES = 3
# Expansions without improvement after which a region's search stops. The small limit applies while the credit is used
# up. The credit starts at `_CREDIT_PER_IMPROVEMENT` expansions. Each failed beam search of any region takes its
# expansions from the credit, and each one that improved a region adds `_CREDIT_PER_IMPROVEMENT`. A region that takes a
# large share of the model's time has a higher limit all the same, up to that of a quarter of the time: more can be
# gained there. The head of a SegFormer is two fifths of it, and its gain is behind 21 to 50 expansions. (In 35 models
# searches took 2.0 times as long, in the median, with 50 for all regions, and 1.2 times with this rule.)
_STALL_LIMIT, _SMALL_STALL_LIMIT, _CREDIT_PER_IMPROVEMENT = 50, 10, 30
_STALL_LIMIT_PER_SHARE = 200
# A rule is unreliable once measurements in this many regions did not confirm the speed-up predicted for it.
_MAX_BROKEN_PREDICTIONS = 2


class RuleStatistics:
    """Counts the outcomes of local beam searches and backjumps by the rule that they began with."""

    def __init__(self) -> None:
        self._failures: dict[tuple[int, str], int] = {}
        self._improvements: dict[str, int] = {}
        self._broken_predictions: dict[str, int] = {}
        self._credit = _CREDIT_PER_IMPROVEMENT  # expansions that failing searches may still take

    def stall_limit(self, share: float) -> int:
        """Return the expansions without improvement after which the search of a region stops.

        The limit is small if beam searches have failed in the first regions, unless the region with its equals takes a
        large `share` of the model's time.
        """
        if self._credit > 0:
            return _STALL_LIMIT
        return max(_SMALL_STALL_LIMIT, min(_STALL_LIMIT, round(_STALL_LIMIT_PER_SHARE * share)))

    def record_broken_prediction(self, rule: str) -> None:
        """Record that a measurement did not confirm the predicted speed-up of steps with this rule."""
        self._broken_predictions[rule] = self._broken_predictions.get(rule, 0) + 1

    def is_unreliable(self, rule: str) -> bool:
        """Return True if measurements in several regions did not confirm predictions for the rule."""
        return self._broken_predictions.get(rule, 0) >= _MAX_BROKEN_PREDICTIONS

    def has_improved(self, rule: str) -> bool:
        """Return True if a search that began with the rule has improved a region."""
        return rule in self._improvements

    def allows(self, effort: int, rule: str) -> bool:
        """Return True if another search may begin with the rule at this effort."""
        limit = _MAX_FAILED_BEAM_SEARCHES * (1 + self._improvements.get(rule, 0))
        return self._failures.get((effort, rule), 0) < limit

    def record(self, effort: int, rule: str, improved: bool, expansions: int) -> None:
        """Record the outcome of a search that began with the rule and took `expansions` expansions."""
        self._credit += _CREDIT_PER_IMPROVEMENT if improved else -expansions
        if improved:
            self._improvements[rule] = self._improvements.get(rule, 0) + 1
        else:
            self._failures[effort, rule] = self._failures.get((effort, rule), 0) + 1
