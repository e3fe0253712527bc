"""The result of a search, and its progress."""

from __future__ import annotations

from dataclasses import dataclass, field

from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.ir.trace import Rewrite, Trace
from superopt.search.strategy.match_report import MatchReport

__all__ = ["SearchProgress", "SearchResult"]


@dataclass(frozen=True)
class SearchProgress:
    """Progress of a search.

    `done` of the `total` distinct regions of pass `pass_number` have been searched at its current effort. `cost_ratio`
    is the cost of the whole graph now over its cost at the start.
    """

    pass_number: int
    done: int
    total: int
    cost_ratio: float
    seconds: float


@dataclass(frozen=True)
class SearchResult:
    """The new graph, and the traces that lead to it, to be replayed one after the other.

    `cost_before` and `cost_after` are the seconds of the whole graph by the cost model, `savings_s` the seconds that
    one use of each rewrite saves. `regions_total` and `regions_unique` count regions of the first pass,
    `regions_improved` the distinct improved regions of all passes. `rule_uses` counts steps by the id of the rule in
    the rule files, and `rule_ids` has that id for the rule of each step. `origin` maps each new term of `outputs` to
    the rule that made it. `match_report` counts the matches, trials and uses of all rules. `states` is the number of
    expanded graphs. `complete` is True if the search ended by itself and not by its budget; then equal costs give equal
    results on every machine.
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
    savings_s: dict[Rewrite, float] = field(default_factory=dict)
    origin: dict[Term, str] = field(default_factory=dict)
    rule_ids: dict[Rule, str] = field(default_factory=dict)
    match_report: MatchReport = field(default_factory=MatchReport)
