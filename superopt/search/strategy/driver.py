"""`search`: cut, search each distinct region, apply what was found everywhere, and once more with other cuts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from superopt.ir.infer import replace as fill
from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.ir.trace import Application, Rewrite, Trace
from superopt.search.apply import Applied, origins
from superopt.search.cost.analytic import CostModel
from superopt.search.cost.graph_cost import GraphCost
from superopt.search.cost.region_timer import Gain, RegionTimer, Untimed
from superopt.search.match.matcher import Matcher
from superopt.search.match.rule_index import RuleIndex
from superopt.search.match.signature_check import Check, CheckCache
from superopt.search.region import Region, canonical, operators_in_order
from superopt.search.strategy.context import Shared
from superopt.search.strategy.cuts import cut_into_regions
from superopt.search.strategy.denormal_rules import by_values, may_fit, worth
from superopt.search.strategy.effort_budget import Meter
from superopt.search.strategy.gc_tuning import few_collections
from superopt.search.strategy.horizontal_fusion import in_order, site_regions
from superopt.search.strategy.recurrent_layers import Recurrences
from superopt.search.strategy.region_search import RegionSearch
from superopt.search.strategy.search_result import Progress, SearchResult
from superopt.search.strategy.state import State

__all__ = ["search"]

PASSES = 3
_FIRST_PASS_SHARE = 0.6
# A rewrite is kept if measured to be faster by this much, or surely by that; so many results of a region are tried.
_LEAST_GAIN, _SURE_GAIN = 1.02, 1.005
_MOST_TIMED = 3
# Where no time is left to measure, the cost model is believed if it promises this much.
_LEAST_PROMISE = 1.1


def search(
    outputs: Sequence[Term],
    rules: Iterable[Rule],
    check: Check,
    cost: CostModel,
    *,
    position: Mapping[Term, int],
    alpha: float = 2.0,
    efforts: int = 1,
    budget_s: float = 60.0,
    region_timer: RegionTimer | None = None,
    value_timer: RegionTimer | None = None,
    progress: Callable[[Progress], None] | None = None,
    limit: int = 4000,
    measuring: Callable[[], float] = lambda: 0.0,
    available: Callable[[str], bool] = lambda op: True,
) -> SearchResult:
    """The cheapest graph equal to `outputs` that is found with `rules` in `budget_s` seconds of a usual machine.

    A rule is applied only with a signature from `check(rule, bindings)`. The search passes through graphs that
    cost up to `alpha` times the best, makes so many `efforts` (1 to `EFFORTS`), and expands at most `limit` graphs a
    region. `position` is the original order of the terms' nodes. `region_timer` times a region's graph before and
    after: what is not faster there is dropped (it gets the model's own weights; other values are variables);
    `value_timer` does the same for rules of which nothing else tells what they are worth (`by_values`).
    `progress` hears of each region. `measuring` tells how many seconds measurements have taken so far. These are no
    part of the budget, nor are proofs (see `Meter`), so that a run which finds them in a cache searches as long as the
    first one, and finds the same. `available`: whether the model's operator set has an operator.
    """
    rules = list(rules)
    with few_collections():
        return _Search(
            tuple(outputs),
            position,
            Shared(
                Matcher(RuleIndex(rules, available)), CheckCache(check), GraphCost(cost), Meter(budget_s, measuring)
            ),
            Recurrences(rules, available),
            alpha,
            efforts,
            limit,
            region_timer,
            value_timer,
            progress or (lambda _: None),
        ).run()


@dataclass
class _Task:
    """One distinct region of a pass, and where it occurs."""

    search: RegionSearch
    places: list[Region] = field(default_factory=list)

    @property
    def weight(self) -> float:
        return float(self.search.best.price.time_ps * len(self.places) ** 0.5)


@dataclass
class _Search:
    outputs: tuple[Term, ...]  # the graph as far as it has come
    position: Mapping[Term, int]
    shared: Shared
    recurrences: Recurrences
    alpha: float
    efforts: int
    limit: int
    region_timer: RegionTimer | None
    value_timer: RegionTimer | None
    progress: Callable[[Progress], None]
    # Searched before, in this or an earlier pass: what became of it.
    known: dict[tuple[Term, ...], RegionSearch] = field(default_factory=dict)
    verdicts: dict[tuple[tuple[Term, ...], tuple[Term, ...]], State | None] = field(default_factory=dict)
    settled: set[tuple[Term, ...]] = field(default_factory=set)  # results of searches: there is nothing to find there
    cuts: set[frozenset[Term]] = field(default_factory=set)  # values that were live where earlier passes have cut
    totals: tuple[int, int] = (0, 0)  # regions of the first pass, and distinct ones
    improved: set[tuple[Term, ...]] = field(default_factory=set)
    traces: list[Trace] = field(default_factory=list)
    gains: dict[Rewrite, float] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)
    origin: dict[Term, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.before = self.shared.cost.price(self.outputs).time_ps

    def run(self) -> SearchResult:
        """Recurrent layers; sites of one law wherever they are, gates before time steps; then pass after pass over
        regions; and what only the values of the graph that is left make faster."""
        self._roll_up()
        for of_values in (True, False):
            if not self.shared.meter.over:
                self._merge_sites(of_values)
        for number in range(1, PASSES + 1):
            if self.shared.meter.over or not (self._pass(number) or number == 1):
                break
        if self.value_timer is not None:
            self._apply_by_values(self.value_timer)
        return SearchResult(
            outputs=self.outputs,
            traces=tuple(self.traces),
            cost_before=self.before * 1e-12,
            cost_after=self.shared.cost.price(self.outputs).time_ps * 1e-12,
            regions_total=self.totals[0],
            regions_unique=self.totals[1],
            regions_improved=len(self.improved),
            rule_uses=dict(sorted(self.uses.items(), key=lambda item: (-item[1], item[0]))),
            states=sum(s.expanded for s in self.known.values()),
            seconds=self.shared.meter.clock_s,
            complete=all(s.exhausted for s in self.known.values()),
            gains=self.gains,
            origin=self.origin,
            tally=self.shared.tally,
        )

    def _roll_up(self) -> None:
        """Recurrent operators in the place of cells and of their steps, where that pays all in all."""
        outputs, steps, check = self.outputs, list[tuple[Trace, Applied]](), self.shared.check
        while not self.shared.meter.over and (trace := self.recurrences.trace(outputs, check)) is not None:
            made = {a.rewrite: origins(a.rewrite, [s.rule.id for s in a.rewrite.steps]) for a in trace.applications}
            steps.append((trace, Applied(outputs, trace, made)))
            outputs = steps[-1][1].outputs
        if self.shared.cost.price(outputs).time_ps < self.before:
            for trace, applied in steps:
                self._apply(trace, applied)
                for application in trace.applications:
                    for step in application.rewrite.steps:
                        self.uses[step.rule.id] = self.uses.get(step.rule.id, 0) + 1

    def _merge_sites(self, of_values: bool) -> None:
        """Merges the sites of single laws that share values, else those that share weights, where that pays."""
        found = list(site_regions(self.outputs, Matcher(self.shared.matcher.rules), of_values))
        for task in self._tasks(found):
            task.search.merge()
        found = [region for region in found if self.known[region.outputs].promise >= _SURE_GAIN]
        found = in_order(self.outputs, sorted(found, key=lambda region: -self.known[region.outputs].saving))
        self._rewrite(found, self._choose(self._tasks(found)), set())

    def _pass(self, number: int) -> bool:
        """Cuts the graph and searches its regions; whether anything came of it.

        What lies between two cuts was searched when these were made: where that search came to its end, a later pass
        looks for what reaches across them.
        """
        focused = bool(self.cuts) and all(search.exhausted for search in self.known.values())
        order = operators_in_order(self.outputs, self.position)
        found, boundaries = cut_into_regions(self.outputs, order, self.shared.matcher.rules, self.cuts)
        tasks = self._tasks(found, focused)
        if number == 1:
            self.totals = len(found), len(tasks)
        total = self.shared.cost.price(self.outputs).time_ps

        def tell(done: int) -> None:
            now = total - sum(task.search.saving * len(task.places) for task in tasks)
            ratio = now / self.before if self.before else 1.0
            self.progress(Progress(number, done, len(tasks), ratio, self.shared.meter.clock_s))

        until, spent = self.shared.meter.budget_s, self.shared.meter.spent_s
        self._improve(tasks, until if number > 1 else spent + (until - spent) * _FIRST_PASS_SHARE, tell)
        return self._rewrite(found, self._choose(tasks), boundaries)

    def _rewrite(
        self, found: Sequence[Region], chosen: Mapping[tuple[Term, ...], State], boundaries: set[frozenset[Term]]
    ) -> bool:
        """Applies what was chosen wherever it occurs; whether that is anywhere. The pass has cut at `boundaries`."""
        trace, origin_of = self._trace(found, chosen)
        self.improved |= chosen.keys()
        for state in chosen.values():
            self.settled.add(canonical(state.outputs) or state.outputs)
        if trace.applications:
            applied = Applied(self.outputs, trace, origin_of)
            self._apply(trace, applied)
            boundaries = {frozenset(map(applied.became, values)) for values in boundaries}
        self.cuts |= boundaries
        return bool(trace.applications)

    def _apply(self, trace: Trace, applied: Applied) -> None:
        self.traces.append(trace)
        self.outputs = applied.outputs
        moved = {applied.became(term): rule for term, rule in self.origin.items()}
        self.origin = moved | applied.origin
        self.position = {applied.became(term): place for term, place in self.position.items()}

    def _tasks(self, found: Sequence[Region], focused: bool = False) -> list[_Task]:
        tasks: dict[tuple[Term, ...], _Task] = {}
        seams: dict[tuple[Term, ...], frozenset[Term]] = {}
        for region in found:
            seams[region.outputs] = seams.get(region.outputs, frozenset()) | region.seams
        for region in found:
            if region.outputs in self.settled:
                continue
            if region.outputs not in tasks:
                if region.outputs not in self.known:
                    self.known[region.outputs] = RegionSearch(
                        region.outputs,
                        self.shared,
                        alpha=self.alpha,
                        efforts=self.efforts,
                        limit=self.limit,
                        focus=seams[region.outputs] if focused else None,
                    )
                tasks[region.outputs] = _Task(self.known[region.outputs])
            tasks[region.outputs].places.append(region)
        return list(tasks.values())

    def _improve(self, tasks: Sequence[_Task], until: float, tell: Callable[[int], None]) -> None:
        """Effort by effort, each for all regions; time is shared by cost and number of occurrences."""
        for effort in range(self.efforts):
            todo = sorted((t for t in tasks if t.search.effort == effort), key=lambda t: -t.weight)
            for k, task in enumerate(todo):
                now = self.shared.meter.spent_s
                if self.shared.meter.over or now >= until:
                    return
                share = task.weight / (sum(t.weight for t in todo[k:]) or 1.0)
                task.search.improve(now + (until - now) * share)
                tell(sum(t.search.effort > effort for t in tasks))

    def _choose(self, tasks: Sequence[_Task]) -> dict[tuple[Term, ...], State]:
        """The result to use for each region that has one."""
        chosen: dict[tuple[Term, ...], State] = {}
        for task in sorted(tasks, key=lambda t: -t.search.saving * len(t.places)):
            start = task.search.start.outputs
            best = task.search.best
            if self.region_timer is not None:
                key = (start, best.outputs)
                if key not in self.verdicts:
                    self.verdicts[key] = self._timed(task, self.region_timer)
                timed = self.verdicts[key]
                if timed is not None:
                    chosen[start] = timed
            elif best.price.time_ps < task.search.start.price.time_ps:
                chosen[start] = best
        return chosen

    def _timed(self, task: _Task, timer: RegionTimer) -> State | None:
        searched = task.search
        for anew in (False, True):
            if anew:
                searched.distrust()
                while not searched.exhausted and searched.improve(self.shared.meter.budget_s):
                    pass
            for state in searched.candidates()[:_MOST_TIMED]:
                try:
                    if self.shared.meter.over:
                        raise Untimed
                    gain = _timed_in(task.places[0], state.outputs, timer)
                except Untimed:
                    return state if searched.promise >= _LEAST_PROMISE else None
                if gain is None or gain.ratio >= _LEAST_GAIN or gain.low >= _SURE_GAIN:
                    return state
            if searched.best is searched.start:
                break
        return None

    def _apply_by_values(self, timer: RegionTimer) -> None:
        """Applies rules whose worth is in the values wherever they are timed to pay."""
        if not may_fit(self.outputs, self.shared):
            return
        order = operators_in_order(self.outputs, self.position)
        found, boundaries = cut_into_regions(self.outputs, order, self.shared.matcher.rules)
        tried: set[tuple[Term, ...]] = set()
        chosen: dict[tuple[Term, ...], State] = {}
        for region in found:
            start = region.outputs
            if start in tried or not may_fit(start, self.shared):
                continue
            tried.add(start)
            state = by_values(start, self.shared)
            if state.parent is None:
                continue
            try:
                gain = _timed_in(region, state.outputs, timer)
            except Untimed:
                break
            if gain is not None and gain.low >= _LEAST_GAIN:
                chosen[start] = worth(state, gain)
        self._rewrite(found, chosen, boundaries)

    def _trace(
        self,
        found: Iterable[Region],
        chosen: Mapping[tuple[Term, ...], State],
    ) -> tuple[Trace, dict[Rewrite, dict[Term, str]]]:
        rewrites = {start: state.rewrite() for start, state in chosen.items()}
        origin_of: dict[Rewrite, dict[Term, str]] = {}
        for start, state in chosen.items():
            origin_of[rewrites[start]] = origins(rewrites[start], state.rules())
            self.gains[rewrites[start]] = (state.first.price.time_ps - state.price.time_ps) * 1e-12
        applications: list[Application] = []
        for region in found:
            if region.outputs in rewrites:
                applications.append(Application(rewrites[region.outputs], region.leaves))
                for state in chosen[region.outputs].path():
                    assert state.parent is not None and state.move is not None
                    rule = state.move.compiled.rule_id
                    self.uses[rule] = self.uses.get(rule, 0) + 1
                    self.shared.tally[rule].used += 1
                    self.shared.tally[rule].saved_s += (state.parent.price.time_ps - state.price.time_ps) * 1e-12
        return Trace(tuple(applications)), origin_of


def _timed_in(region: Region, outputs: tuple[Term, ...], timer: RegionTimer) -> Gain | None:
    """What `outputs` gain in the place of the region's own, with the model's weights. Raises Untimed."""
    weights = {leaf: term for leaf, term in region.leaves if leaf.op == "Const"}
    return timer(fill(region.outputs, weights), fill(outputs, weights))
