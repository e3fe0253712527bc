"""The flow of a search, from the model to the result:

1. Unrolled recurrent layers become recurrent operators (`recurrent_layers`).
2. Selections all over the model are moved towards the inputs (`selections`), so that less is computed.
3. Sibling operators all over the model are merged (`horizontal_fusion`).
4. Rules with long left sides are applied, also where they reach into values that all of the model shares
   (`long_matches`).
5. Pass after pass: the model is cut into regions (`cuts`), each distinct region is searched once (`region_tasks`,
   `region_search`), a result is chosen for it (`result_choice`), and it is applied wherever the region occurs
   (`rewritten_model`). The next pass cuts elsewhere, and the second one orders operators by their distance from the
   outputs: branches come side by side, with their ends beside the operator that joins them.
6. Operators are replaced by algorithms for them, such as Winograd convolution, that timings show to be faster
   (`algorithms`).
7. Rules whose gain depends on the values of tensors are applied where a timing confirms the gain (`denormal_rules`).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from superopt.gc_tuning import rare_collections
from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.ir.trace import Trace
from superopt.search.apply import AppliedTrace, rule_origins
from superopt.search.cost.analytic import CostModel
from superopt.search.cost.graph_cost import SECONDS_PER_PS, GraphCost
from superopt.search.cost.over_sizes import SizeGuard
from superopt.search.cost.region_timer import RegionTimer, Untimed
from superopt.search.match.matcher import Matcher
from superopt.search.match.rule_index import RuleIndex
from superopt.search.match.signature_check import Check, CheckCache
from superopt.search.region import Region, canonical, operators_in_order
from superopt.search.strategy.algorithms import (
    AlgorithmGains,
    apply_algorithms,
    may_apply_algorithms,
    measure_algorithms,
)
from superopt.search.strategy.cuts import cut_into_regions
from superopt.search.strategy.denormal_rules import apply_denormal_rules, may_apply_denormal_rules, with_measured_price
from superopt.search.strategy.effort_budget import EffortBudget
from superopt.search.strategy.horizontal_fusion import compatible_regions, sibling_regions
from superopt.search.strategy.long_matches import LongMatches
from superopt.search.strategy.recurrent_layers import RecurrentLayers
from superopt.search.strategy.region_tasks import RegionPool, RegionTask
from superopt.search.strategy.result_choice import (
    MIN_GAIN_RATIO,
    MIN_SURE_GAIN_RATIO,
    Choice,
    ResultChooser,
    time_in_place,
)
from superopt.search.strategy.rewritten_model import RewrittenModel
from superopt.search.strategy.search_context import SearchContext
from superopt.search.strategy.search_result import SearchProgress, SearchResult
from superopt.search.strategy.selections import selection_regions
from superopt.search.strategy.state import SearchState

__all__ = ["search"]

_MAX_PASSES = 3
_PASS_BY_DISTANCE = 2  # its order of operators has nothing of the model's own
_FIRST_PASS_SHARE = 0.6  # of the budget


def search(
    outputs: Sequence[Term],
    rules: Iterable[Rule],
    check: Check,
    cost: CostModel | SizeGuard,
    *,
    position: Mapping[Term, int],
    alpha: float = 2.0,
    efforts: int = 1,
    budget_s: float = 60.0,
    region_timer: RegionTimer | None = None,
    denormal_timer: RegionTimer | None = None,
    algorithm_gains: AlgorithmGains | None = None,
    progress: Callable[[SearchProgress], None] | None = None,
    max_expansions: int = 4000,
    deadline: float = math.inf,
    available: Callable[[Term], bool] = lambda operator: True,
    max_folding_s: float = math.inf,
) -> SearchResult:
    """Return the cheapest graph equal to `outputs` that is found with `rules` in the budget.

    `position` is the position of the terms' nodes in the model. A rule is applied only at a signature that
    `check(rule, bindings)` returns. `available(operator)` tells if a rule may introduce this operator.

    The search passes through graphs that cost up to `alpha` times the best one. It makes `efforts` efforts (up to
    `EFFORTS`; with 0 it only applies rewrites that are gains by themselves) and expands at most `max_expansions` graphs
    in a region. `budget_s` is in seconds of a typical machine. Proofs and measurements do not count: a run that finds
    them in a cache searches as long as the first run, and finds the same result (see `EffortBudget`). At the time
    `deadline` of `time.monotonic` the search ends in any case; results that were found until then are still timed.

    With several cost models in a SizeGuard, for several values of dynamic sizes or for several devices, the search
    lowers their mean (see `cost/over_sizes.py`), and makes no rewrite that is slower by any of them.

    `region_timer` times a region before and after; results that are not faster are dropped. Graphs are passed to it
    over the model's own weights and variables for all other values. `denormal_timer` is the timer for rules whose gain
    no cost model shows (`denormal_rules`). `algorithm_gains` measures algorithms (`algorithms`). `progress` is called
    after each search of a region. In a region, folding the constants of a result takes at most `max_folding_s` seconds
    (see `cost/folding.py`).
    """
    rules = list(rules)
    budget = EffortBudget(budget_s, deadline)
    guard = cost if isinstance(cost, SizeGuard) else SizeGuard([cost])
    costs = GraphCost(guard.mean(outputs), max_folding_s)
    context = SearchContext(Matcher(RuleIndex(rules, available)), CheckCache(check), costs, guard, budget)
    with rare_collections():
        return _Driver(
            tuple(outputs),
            position,
            context,
            RecurrentLayers(rules, available),
            LongMatches(rules, available),
            RegionPool(context, alpha=alpha, efforts=efforts, max_expansions=max_expansions),
            ResultChooser(region_timer, context.budget),
            denormal_timer,
            algorithm_gains,
            progress or (lambda _: None),
        ).run()


class _Driver:
    """One search of a model."""

    def __init__(
        self,
        outputs: tuple[Term, ...],
        position: Mapping[Term, int],
        context: SearchContext,
        recurrent_layers: RecurrentLayers,
        long_matches: LongMatches,
        pool: RegionPool,
        chooser: ResultChooser,
        denormal_timer: RegionTimer | None,
        algorithm_gains: AlgorithmGains | None,
        progress: Callable[[SearchProgress], None],
    ) -> None:
        self.context, self.recurrent_layers, self.pool, self.chooser = context, recurrent_layers, pool, chooser
        self.long_matches = long_matches
        self.denormal_timer, self.algorithm_gains, self.progress = denormal_timer, algorithm_gains, progress
        self.model = RewrittenModel(outputs, position, context.report)
        self.cuts: set[frozenset[Term]] = set()  # the live values at each cut of earlier passes
        self.improved: set[tuple[Term, ...]] = set()
        self.first_pass_regions = (0, 0)  # all, and distinct ones
        self.has_passed = False  # True if there was time for a pass, so that regions were searched
        self.time_before_ps = self._time_ps(outputs)

    def _time_ps(self, outputs: Sequence[Term]) -> int:
        return self.context.cost.price(outputs).time_ps

    def run(self) -> SearchResult:
        """Run all stages of the search (see the module).

        Selections are moved before siblings are merged, because they often concern one sibling only (the queries of an
        attention). Horizontal fusion first merges gates, which share values, and then time steps, which share weights.
        """
        budget = self.context.budget
        self._roll_up_recurrent_layers()
        if not budget.exhausted:
            self._push_selections()
        for sharing_values in (True, False):
            if not budget.exhausted:
                self._fuse_siblings(sharing_values)
        if not budget.exhausted:
            self._apply_long_matches()
        for number in range(1, _MAX_PASSES + 1):
            if budget.exhausted or not (self._run_pass(number) or number == 1):
                break
            self.has_passed = True
        if self.algorithm_gains is not None:
            self._apply_algorithms(self.algorithm_gains)
        if self.denormal_timer is not None:
            self._apply_denormal_rules(self.denormal_timer)
        return self._result()

    def _result(self) -> SearchResult:
        model, searches = self.model, self.pool.searches.values()
        return SearchResult(
            outputs=model.outputs,
            traces=tuple(model.traces),
            cost_before=self.time_before_ps * SECONDS_PER_PS,
            cost_after=self._time_ps(model.outputs) * SECONDS_PER_PS,
            regions_total=self.first_pass_regions[0],
            regions_unique=self.first_pass_regions[1],
            regions_improved=len(self.improved),
            rule_uses=dict(sorted(model.uses.items(), key=lambda item: (-item[1], item[0]))),
            states=sum(search.expanded for search in searches),
            seconds=self.context.budget.elapsed_s,
            complete=self.has_passed and self.pool.all_exhausted,
            savings_s=model.savings_s,
            origin=model.origin,
            rule_ids=model.rule_ids,
            match_report=self.context.report,
        )

    def _roll_up_recurrent_layers(self) -> None:
        """Replace unrolled recurrent layers by recurrent operators, if that pays as a whole.

        Operators of single steps may be slower than the cells: then all rewrites are dropped. So if the time ends at
        them, the steps are joined all the same, which takes less time than finding them did.
        """
        outputs, steps = self.model.outputs, list[tuple[Trace, AppliedTrace]]()
        rule_ids = self.recurrent_layers.rule_ids
        while steps or not self.context.budget.exhausted:
            trace = self.recurrent_layers.next_trace(outputs, self.context.check)
            if trace is None:
                break
            origin_of = {
                a.rewrite: rule_origins(a.rewrite, [rule_ids[step.rule] for step in a.rewrite.steps])
                for a in trace.applications
            }
            steps.append((trace, AppliedTrace(outputs, trace, origin_of)))
            outputs = steps[-1][1].outputs
        is_slower = self.context.guard.is_slower(outputs, self.model.outputs)
        if self._time_ps(outputs) < self.time_before_ps and not is_slower:
            self.model.apply_traces(steps, rule_ids)

    def _fuse_siblings(self, sharing_values: bool) -> None:
        """Merge sibling operators where that pays: siblings that share values, or those that only share weights."""
        matcher = Matcher(self.context.matcher.rules)
        regions = list(sibling_regions(self.model.outputs, matcher, sharing_values))
        for task in self.pool.tasks(regions):
            task.search.fuse_siblings()
        self._apply_best(regions)

    def _push_selections(self) -> None:
        """Move selections towards the inputs where that pays."""
        budget = self.context.budget
        regions = list(itertools.takewhile(lambda _: not budget.exhausted, selection_regions(self.model.outputs)))
        for task in self.pool.tasks(regions):
            task.search.push_selections()
        self._apply_best(regions)

    def _apply_long_matches(self) -> None:
        """Apply rules with long left sides where that pays.

        Shared values may stay in the model, so they count in the prices before and after.
        """
        found = self.long_matches.of(self.model.outputs)
        shared: dict[tuple[Term, ...], dict[Term, None]] = {}
        for region, values in found:
            shared.setdefault(region.outputs, {}).update(dict.fromkeys(values))
        price = self.context.cost.price
        paying: set[tuple[Term, ...]] = set()
        for task in self.pool.tasks([region for region, _ in found]):
            task.search.rewrite_whole()
            before, after = task.search.start.outputs, task.search.best.outputs
            if price((*after, *shared[before])) < price((*before, *shared[before])):
                paying.add(before)
        self._apply_best([region for region, _ in found if region.outputs in paying])
        self._forget(shared.keys() - paying)

    def _apply_best(self, regions: list[Region]) -> None:
        """Apply the results of regions that may overlap, those that save most first, and forget the other regions.

        A pass may cut the same regions, and has to search them with all rules.
        """
        searches = self.pool.searches
        best = [r for r in regions if searches[r.outputs].predicted_speedup >= MIN_SURE_GAIN_RATIO]
        best.sort(key=lambda region: -searches[region.outputs].predicted_saving_ps)
        best = compatible_regions(self.model.outputs, best)
        chosen = self.chooser.choose(self.pool.tasks(best))
        self._apply(best, chosen, set())
        self._forget({region.outputs for region in regions}.difference(chosen))

    def _forget(self, regions: Iterable[tuple[Term, ...]]) -> None:
        for outputs in regions:
            self.pool.searches.pop(outputs, None)

    def _run_pass(self, number: int) -> bool:
        """Cut the graph, search its regions and apply the results. Return True if the pass changed the graph.

        If all searches of earlier passes have ended by themselves, new searches begin at the seams, because the regions
        between two old cuts have been searched already.
        """
        budget = self.context.budget
        at_seams = bool(self.cuts) and self.pool.all_exhausted
        regions, cuts = self._cut({} if number == _PASS_BY_DISTANCE else self.model.position, self.cuts)
        tasks = self.pool.tasks(regions, at_seams)
        if number == 1:
            self.first_pass_regions = len(regions), len(tasks)
        until_s = budget.limit_s
        if number == 1:
            until_s = budget.spent_s + (budget.limit_s - budget.spent_s) * _FIRST_PASS_SHARE
        self.pool.improve(tasks, until_s, self._reporter(number, tasks))
        return self._apply(regions, self.chooser.choose(tasks), cuts)

    def _cut(
        self, position: Mapping[Term, int], earlier: set[frozenset[Term]]
    ) -> tuple[list[Region], set[frozenset[Term]]]:
        order = operators_in_order(self.model.outputs, position)
        return cut_into_regions(self.model.outputs, order, self.context.matcher.rules, earlier)

    def _reporter(self, number: int, tasks: Sequence[RegionTask]) -> Callable[[int], None]:
        total_ps = self._time_ps(self.model.outputs)

        def report(done: int) -> None:
            now_ps = total_ps - sum(task.predicted_saving_ps for task in tasks)
            ratio = now_ps / self.time_before_ps if self.time_before_ps else 1.0
            self.progress(SearchProgress(number, done, len(tasks), ratio, self.context.budget.elapsed_s))

        return report

    def _apply(self, regions: Sequence[Region], chosen: Choice, cuts: set[frozenset[Term]]) -> bool:
        """Apply the chosen results wherever their regions occur. Return True if that changed the graph.

        `cuts` has the live values at the cuts of this pass; `self.cuts` gets the corresponding terms of the new graph.
        """
        self.improved |= chosen.keys()
        for state in chosen.values():
            self.pool.mark_finished(canonical(state.outputs) or state.outputs)
        applied = self.model.apply_choice(regions, chosen)
        if applied is not None:
            cuts = {frozenset(map(applied.became, values)) for values in cuts}
        self.cuts |= cuts
        return applied is not None

    def _apply_algorithms(self, gains: AlgorithmGains) -> None:
        """Replace operators by algorithms that are measured to be faster."""
        if not may_apply_algorithms(self.model.outputs, self.context):
            return
        regions, cuts = self._cut(self.model.position, set())
        different = Counter(region.outputs for region in regions)
        graphs = {outputs: n for outputs, n in different.items() if may_apply_algorithms(outputs, self.context)}
        measure_algorithms(graphs, self.context, gains)
        found = {outputs: apply_algorithms(outputs, self.context, gains) for outputs in graphs}
        self._apply(regions, {outputs: state for outputs, state in found.items() if state.parent is not None}, cuts)

    def _apply_denormal_rules(self, timer: RegionTimer) -> None:
        """Apply rules against denormal numbers in the regions where a timing says that they pay."""
        if not may_apply_denormal_rules(self.model.outputs, self.context):
            return
        regions, cuts = self._cut(self.model.position, set())
        tried: set[tuple[Term, ...]] = set()
        chosen: dict[tuple[Term, ...], SearchState] = {}
        for region in regions:
            start = region.outputs
            if start in tried or not may_apply_denormal_rules(start, self.context):
                continue
            tried.add(start)
            state = apply_denormal_rules(start, self.context)
            if state.parent is None:
                continue
            try:
                gain = time_in_place(region, state.outputs, timer)
            except Untimed:
                break
            if gain is not None and gain.low >= MIN_GAIN_RATIO:
                chosen[start] = with_measured_price(state, gain)
        self._apply(regions, chosen, cuts)
