"""Counts for the user: how often each rule matched, was tried and was used, and the predicted saving of its uses."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Attempts", "MatchReport"]


@dataclass
class Attempts:
    """Counts for one rule, over all distinct regions and the result.

    `matched` counts priced rewrites (once for each graph), `tried` counts graphs made by such a rewrite, and `unproven`
    counts rewrites at signatures where the rule is not proven. `used` counts uses in the result, and `saved_s` is the
    time that these uses save by the cost model. The saving of a step to a more expensive graph is negative.
    """

    matched: int = 0
    tried: int = 0
    unproven: int = 0
    used: int = 0
    saved_s: float = 0.0


@dataclass
class MatchReport:
    """Attempts by the id of the rule in the rule files."""

    by_rule: dict[str, Attempts] = field(default_factory=dict)

    def __getitem__(self, rule_id: str) -> Attempts:
        return self.by_rule.setdefault(rule_id, Attempts())
