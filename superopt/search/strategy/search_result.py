"""What a search came back with."""

from __future__ import annotations

from dataclasses import dataclass, field

from superopt.ir.term import Term
from superopt.ir.trace import Rewrite, Trace
from superopt.search.strategy.match_report import Tally

__all__ = ["Progress", "SearchResult"]


@dataclass(frozen=True)
class Progress:
    """How far a search is: the pass, how many of its distinct regions have been searched as far as the pass has come,
    and the cost of the whole graph now over the cost before."""

    number: int
    done: int
    total: int
    ratio: float
    seconds: float


@dataclass(frozen=True)
class SearchResult:
    """The new graph and the proof material for it: `traces` are replayed one after the other.

    Costs are seconds by the cost model, for the whole graph. `gains` is what one use of a rewrite saves.
    `regions_total` and `regions_unique` are those of the first pass, `regions_improved` the distinct ones of all.
    `rule_uses` counts by the id of the rule as it stands in the rule set; `origin` names for each new term
    of `outputs` the rule that made it; `tally` says what became of all rules. `states` is how many graphs were
    expanded. `complete`: the search ended by itself, not by its time budget; then the same costs give the same result
    on every machine.
    """

    outputs: tuple[Term, ...]
    traces: tuple[Trace, ...]
    cost_before: float
    cost_after: float
    regions_total: int
    regions_unique: int
    regions_improved: int
    rule_uses: dict[str, int]
    states: int
    seconds: float
    complete: bool
    gains: dict[Rewrite, float] = field(default_factory=dict)
    origin: dict[Term, str] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
