"""What became of each rule in a search, to be shown: where it matched, whether it was tried, what it gained."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Attempts", "Tally"]


@dataclass
class Attempts:
    """Of one rule, in all distinct regions: moves that were priced (a move counts once a graph), graphs that were made
    by one, moves that no proof allows; and in the result: uses, and the seconds that they save by the cost model (steps
    that lead uphill save less than nothing)."""

    matched: int = 0
    tried: int = 0
    unproven: int = 0
    used: int = 0
    saved_s: float = 0.0


@dataclass
class Tally:
    """Attempts by the id of the rule as it stands in the rule set."""

    of_rule: dict[str, Attempts] = field(default_factory=dict)

    def __getitem__(self, rule: str) -> Attempts:
        return self.of_rule.setdefault(rule, Attempts())
