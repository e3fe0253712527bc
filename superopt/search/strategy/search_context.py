"""The state that the searches of all regions of a model share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from superopt.ir.term import Term
from superopt.search.cost.graph_cost import GraphCost
from superopt.search.cost.over_sizes import SizeGuard
from superopt.search.match.compiled_rule import CompiledRule
from superopt.search.match.graph_index import run_time_terms
from superopt.search.match.matcher import Matcher
from superopt.search.match.signature_check import CheckCache
from superopt.search.strategy.effort_budget import EffortBudget
from superopt.search.strategy.match_report import MatchReport
from superopt.search.strategy.rule_statistics import RuleStatistics

__all__ = ["SearchContext"]


@dataclass(frozen=True)
class SearchContext:
    """Rules, proofs, costs and the budget, with statistics gathered during the search.

    `guard` tells if a graph is slower than another at any of the sizes that the search is for; `cost` is their mean.

    `statistics` counts successes and failures of the searches that began with each rule. `report` counts, for the user,
    matches, trials and uses of each rule.
    """

    matcher: Matcher
    check: CheckCache
    cost: GraphCost
    guard: SizeGuard = field(default_factory=SizeGuard)
    budget: EffortBudget = field(default_factory=EffortBudget)
    statistics: RuleStatistics = field(default_factory=RuleStatistics)
    report: MatchReport = field(default_factory=MatchReport)

    def may_match(self, outputs: Sequence[Term], wanted: Callable[[CompiledRule], bool]) -> bool:
        """Quick test: return False if the operators of a graph show that no `wanted` rule matches in it."""
        candidates = self.matcher.rules.candidates
        return any(wanted(compiled) for term in run_time_terms(outputs) for compiled in candidates(term))
