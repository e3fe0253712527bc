"""The model during the search: its current graph, the traces from the original graph to it, and counts of rule uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.ir.trace import Application, Rewrite, Trace
from superopt.search.apply import AppliedTrace, rule_origins
from superopt.search.cost.graph_cost import SECONDS_PER_PS
from superopt.search.region import Region
from superopt.search.strategy.match_report import MatchReport
from superopt.search.strategy.result_choice import Choice
from superopt.search.strategy.state import SearchState

__all__ = ["RewrittenModel"]


class RewrittenModel:
    """The model's graph after the rewrites that were applied so far.

    `position` maps each term to the original position of its node, `origin` each new term to the rule that made it.
    `traces` lead from the original graph to `outputs`. `savings_s` has the seconds that one use of a rewrite saves,
    `uses` the number of steps by rule id. `rule_ids` maps the rule of each step, which may be a rule of the files in
    the other direction or another order of operands, to the id in the rule files.
    """

    def __init__(self, outputs: tuple[Term, ...], position: Mapping[Term, int], report: MatchReport) -> None:
        self.outputs = outputs
        self.position = position
        self.traces: list[Trace] = []
        self.origin: dict[Term, str] = {}
        self.savings_s: dict[Rewrite, float] = {}
        self.uses: dict[str, int] = {}
        self.rule_ids: dict[Rule, str] = {}
        self._report = report

    def apply_choice(self, regions: Iterable[Region], chosen: Choice) -> AppliedTrace | None:
        """Replace each occurrence of a region by the region's chosen result; return None if no region has one."""
        rewrites = {start: state.rewrite() for start, state in chosen.items()}
        origin_of: dict[Rewrite, dict[Term, str]] = {}
        for start, state in chosen.items():
            origin_of[rewrites[start]] = rule_origins(rewrites[start], state.rule_ids())
            saved_ps = state.first.price.time_ps - state.price.time_ps
            self.savings_s[rewrites[start]] = saved_ps * SECONDS_PER_PS
        applications: list[Application] = []
        for region in regions:
            if region.outputs in rewrites:
                applications.append(Application(rewrites[region.outputs], region.leaves))
                self._count_uses(chosen[region.outputs])
        if not applications:
            return None
        trace = Trace(tuple(applications))
        applied = AppliedTrace(self.outputs, trace, origin_of)
        self._adopt(trace, applied)
        return applied

    def apply_traces(self, steps: Sequence[tuple[Trace, AppliedTrace]], rule_ids: Mapping[Rule, str]) -> None:
        """Adopt traces that were carried out one after the other, beginning with the current graph.

        `rule_ids` has the id in the rule files for the rule of each step.
        """
        for trace, applied in steps:
            self._adopt(trace, applied)
            for application in trace.applications:
                for step in application.rewrite.steps:
                    self._count_use(step.rule, rule_ids[step.rule])

    def _count_uses(self, state: SearchState) -> None:
        for step in state.path():
            assert step.parent is not None and step.match is not None
            compiled = step.match.compiled
            self._count_use(compiled.rule, compiled.rule_id)
            attempts = self._report[compiled.rule_id]
            attempts.used += 1
            attempts.saved_s += (step.parent.price.time_ps - step.price.time_ps) * SECONDS_PER_PS

    def _count_use(self, rule: Rule, rule_id: str) -> None:
        self.rule_ids[rule] = rule_id
        self.uses[rule_id] = self.uses.get(rule_id, 0) + 1

    def _adopt(self, trace: Trace, applied: AppliedTrace) -> None:
        self.traces.append(trace)
        self.outputs = applied.outputs
        carried = {applied.became(term): rule for term, rule in self.origin.items()}
        self.origin = carried | applied.origin
        self.position = {applied.became(term): place for term, place in self.position.items()}
