"""A report for the user: where each rule matched, how often it was tried, and what it saved."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Attempts", "MatchReport"]


@dataclass
class Attempts:
    """Counts for one rule, over all distinct regions and the result.

    `matched` counts rewrites that were priced (one rewrite counts once a graph), `tried` graphs that were made by one,
    `unproven` rewrites that no proof allows. In the result, `used` counts uses and `saved_s` is the seconds that they
    save by the cost model. Steps to a more expensive graph save less than nothing.
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
