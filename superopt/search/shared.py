"""What the searches of all regions have in common."""

from __future__ import annotations

from dataclasses import dataclass, field

from superopt.search.graph_cost import GraphCost
from superopt.search.luck import Luck
from superopt.search.meter import Meter
from superopt.search.moves import CheckCache, Matcher
from superopt.search.tally import Tally

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
