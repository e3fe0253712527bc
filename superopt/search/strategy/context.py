"""What the searches of all regions have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from superopt.search.cost.graph_cost import GraphCost
from superopt.search.match.matcher import Matcher
from superopt.search.match.signature_check import CheckCache
from superopt.search.strategy.effort_budget import Meter
from superopt.search.strategy.match_report import Tally
from superopt.search.strategy.rule_statistics import Luck

__all__ = ["Shared"]


@dataclass(frozen=True)
class Shared:
    """Rules, proofs and costs; and what is learned on the way: which first moves led anywhere (`luck`), what became of
    each rule (`tally`), and how much was done so far (`meter`)."""

    matcher: Matcher
    check: CheckCache
    cost: GraphCost
    meter: Meter = field(default_factory=Meter)
    luck: Luck = field(default_factory=Luck)
    tally: Tally = field(default_factory=Tally)
