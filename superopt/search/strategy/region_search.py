"""The search of one region: descend greedily, then look for gains that are reached through more expensive graphs.

Rewrites in different places commute, so best-first search would enumerate the orders of independent rewrites. A gain,
however, is a connected series of rewrites: each rewrite touches terms that an earlier one created, or their
neighbourhood. So each rewrite of the best graph whose result is within the factor alpha starts a *local beam search*.
The beam search is a few rewrites deep and only uses rewrites near the terms that it has created. A path ends when
nothing of the first rewrite's result is left. If the beam search finds a better graph, descent starts again from that
graph. Rewrites that only pay together are one rewrite (`compound_match`). If earlier searches have covered both halves
of a region, beam searches begin at the seam between the halves (`focus`).

A *backjump* revises an earlier decision, as in conflict-directed backjumping. It goes back to a graph on the path to
the best one, and applies a rewrite that conflicts with the rewrite that was taken there: both rewrite a common
operator. (Rewrites without a conflict are still available later.) A local beam search follows, and a descent that keeps
the result of the beam search. Both are done twice.

Each effort is larger than the last: beam searches become wider and deeper, and backjumps revise more decisions. They
are also wider in regions that take a large share of the model's time.

Kernels of the runtime's own (FusedGemm, SkipLayerNormalization) hide the standard operators that they replace from all
other rules. So the search uses standard operators only, and kernels are selected for its final graph, as instructions
are selected in a compiler (Tang and Zhai): the cheapest first, where that pays. Some rewrites only enlarge the
constants of an operator to make it faster (two groups of channels as one). Descent applies them at kernel selection,
too; local beam searches may use them as intermediate steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir.term import Term
from superopt.search.match.graph_index import run_time_terms
from superopt.search.strategy.efforts import Effort, effort_plan
from superopt.search.strategy.expander import PricedMatch
from superopt.search.strategy.local_search import LocalSearch, merely_move
from superopt.search.strategy.search_context import SearchContext
from superopt.search.strategy.state import SearchState, as_search_root

__all__ = ["RegionSearch"]


# The search of a region stops after a number of expansions without an improvement: `stall_limit` (see RuleStatistics)
# times the number of efforts, or, if that is more, half of the expansions that it took to find the best graph. With the
# factor below, the search then ends after 1.5 times the expansions that it took to find the best graph.
_STALL_FACTOR = 1.5


class RegionSearch:
    """The search of one region; each call of `improve` makes the next, larger effort.

    `base` is the best state found, over standard operators. `best` is `base` after kernels are selected. `effort` is
    the number of the next effort. `share` is the part of the model's time that the region takes wherever it occurs.
    """

    def __init__(
        self,
        outputs: Sequence[Term],
        context: SearchContext,
        *,
        alpha: float = 2.0,
        max_expansions: int = 4000,
        efforts: int = 1,
        focus: frozenset[Term] | None = None,
    ) -> None:
        self._statistics, self._budget = context.statistics, context.budget
        self.alpha, self.max_expansions, self.efforts = alpha, max_expansions, max(1, efforts)
        self._only_descends = efforts == 0
        self._local = LocalSearch(
            outputs,
            context,
            alpha=alpha,
            focus=focus,
            stopped=lambda: self.exhausted or self._out_of_time,
            out_of_time=lambda: self._out_of_time,
        )
        self.start = self.best = self.base = self._local.start
        self.deadline_s = float("inf")
        self.effort = 0
        self.share = 0.0
        self._is_searched = True  # False: siblings were merged, or selections moved, and nothing else is done
        # (effort, graph) pairs: a beam search or backjump that began with this graph has found nothing.
        self._failed: set[tuple[int, tuple[Term, ...]]] = set()
        self._selected: SearchState | None = None  # the base that kernels were last selected for
        # Values of `expanded` when the search began (or began again), and when the best state was found.
        self._begun_at = self._found_at = 0

    @property
    def expanded(self) -> int:
        """Number of expanded graphs."""
        return self._local.expander.expanded

    @property
    def exhausted(self) -> bool:
        """True if there is nothing more to do."""
        # A search that took long to find its best graph may take as long to find a better one.
        stall_limit = max(
            self._statistics.stall_limit(self.share) * self.efforts,
            round((self._found_at - self._begun_at) * (_STALL_FACTOR - 1)),
        )
        return self.effort >= self.efforts or self.expanded >= min(self.max_expansions, self._found_at + stall_limit)

    @property
    def _out_of_time(self) -> bool:
        return self._budget.exhausted or self._budget.spent_s >= self.deadline_s

    def candidates(self) -> list[SearchState]:
        """Return the improvements that differ in cost by 2% or more, cheapest first."""
        return self._local.candidates(self.best)

    @property
    def predicted_saving_ps(self) -> int:
        """Picoseconds that the best graph saves by the cost model."""
        return self.start.price.time_ps - self.best.price.time_ps

    @property
    def predicted_speedup(self) -> float:
        """Factor by which the best graph is cheaper than the first one by the cost model."""
        return self.start.price.time_ps / max(1, self.best.price.time_ps)

    def restart_without_best_rule(self) -> None:
        """Begin again without the rule that contributes most to the predicted saving of the best graph.

        Callers use this when measurements of the best graphs did not confirm the predicted speed-up.
        """
        saved: dict[str, int] = {}
        for state in self.best.path():
            assert state.parent is not None and state.match is not None
            rule = state.match.compiled.rule_id
            saved[rule] = saved.get(rule, 0) + state.parent.price.time_ps - state.price.time_ps
        rule = max(saved, key=lambda rule: saved[rule])
        self._local.expander.excluded_rules.add(rule)
        self._statistics.record_broken_prediction(rule)
        self._local.forget_candidates()
        self.best = self.base = self.start
        self.effort = 0 if self._is_searched else self.efforts
        self._begun_at = self._found_at = self.expanded

    def fuse_siblings(self) -> None:
        """Merge sibling operators that compute something where that pays, and then their users; do nothing else.

        Merging continues along the users, because the Split of a merged result disappears once merged operators read
        all of its parts.
        """
        local = self._local
        max_time_ps = self.alpha * self.base.price.time_ps
        for _, found in local.expander.expand(self.start, max_time_ps=max_time_ps, siblings_only=True):
            state = None if merely_move(found.roots) else local.apply(self.start, found)
            while state is not None:
                self._accept(state)
                state = local.continue_fusion(state)
        self._end_with_base()

    def push_selections(self) -> None:
        """Move selections towards the inputs as far as rules move them, where that pays; do nothing else."""
        reached: list[SearchState] = []
        state: SearchState | None = self.start
        while state is not None and not self._out_of_time:
            reached.append(state)
            state = self._local.push_selection(state)
        for state in sorted(reached, key=lambda state: state.price):
            self._accept(state)
        self._end_with_base()

    def rewrite_whole(self) -> None:
        """Apply the rewrites of all operators at once, and then those that are gains by themselves, where that pays; do
        nothing else."""
        operators = run_time_terms(self.start.outputs)
        for _, found in self._local.expander.expand(self.start):
            if found.covered >= operators and (state := self._local.apply(self.start, found)) is not None:
                self._accept(self._local.descend(state))
        self._end_with_base()

    def _end_with_base(self) -> None:
        self.best, self.effort, self._is_searched = self.base, self.efforts, False

    def improve(self, deadline_s: float = float("inf")) -> bool:
        """Make the next effort, until `deadline_s` seconds of the budget are spent. Return True if it was completed."""
        self.deadline_s = deadline_s
        if self.exhausted:
            return True
        try:
            return self._improve()
        finally:
            self._local.expander.trim()

    def _improve(self) -> bool:
        if self.effort == 0 and self.base is self.start:
            self._accept(self._local.descend(self.start))
            self._select_kernels()
        plan = effort_plan(self.effort, self.share)
        while not (self._only_descends or self.exhausted or self._out_of_time):
            found = self._local_beam_searches(plan) or self._backjumps(plan)
            if found is None:
                break
            self._accept(self._local.descend(found))
        self._select_kernels()
        if not self.exhausted and self._out_of_time:
            return False
        self.effort += 1
        return True

    def _select_kernels(self) -> None:
        """Select kernels of the runtime for the base."""
        if self._selected is self.base:
            return
        expander = self._local.expander
        expanded = expander.expanded
        selected = self._local.descend(self.base, select_kernels=True)
        expander.expanded = expanded  # kernel selection does not count as search
        self._selected = None if self._out_of_time else self.base
        if self._local.is_gain(selected, self.best):
            self.best = as_search_root(selected)

    def _accept(self, state: SearchState) -> None:
        if self._local.is_gain(state, self.base):
            self.base = as_search_root(state)
            self._found_at = self.expanded

    def _local_beam_searches(self, plan: Effort) -> SearchState | None:
        """Return a state better than the base, found by a beam search from one of the base's rewrites, or None."""
        local, expander, statistics = self._local, self._local.expander, self._statistics
        expander.known_terms = frozenset(run_time_terms(self.base.outputs))
        max_time_ps = self.alpha * self.base.price.time_ps
        rewrites = expander.expand(self.base, self.base.focus, max_time_ps)

        def order(item: PricedMatch) -> tuple[bool, int, int]:
            """Many rewrites leave the time as it is. Those of the operators that take most of it come first: little
            can be gained where little is spent."""
            touched_ps = expander.touched_ps(self.base, item.match)
            return not statistics.has_improved(item.match.statistics_key), item.price.time_ps, -touched_ps

        for _, first in sorted(rewrites, key=order):
            if self.exhausted or self._out_of_time:
                return None
            rule = first.statistics_key
            child = local.apply(self.base, first) if statistics.allows(self.effort, rule) else None
            if child is None:
                continue
            key = (self.effort, expander.operand_order(child.outputs))
            if key in self._failed:
                continue
            before = self.expanded
            found = local.beam_search(child, self.base, *plan.beam, plan.max_uphill)
            improved = local.is_gain(found, self.base)
            statistics.record(self.effort, rule, improved, self.expanded - before)
            if improved:
                return found
            self._failed.add(key)
        return None

    def _backjumps(self, plan: Effort) -> SearchState | None:
        """Return a state better than the base, found by revising a decision on the path to it, or None.

        Late decisions are revised first.
        """
        local, expander, statistics = self._local, self._local.expander, self._statistics
        for taken in reversed(self.base.path()):
            choices_left = plan.choices
            assert taken.parent is not None and taken.match is not None
            parent = as_search_root(taken.parent)
            expander.known_terms = frozenset(run_time_terms(parent.outputs))
            for _, first in expander.expand(parent, parent.focus, self.alpha * parent.price.time_ps):
                if self.exhausted or self._out_of_time:
                    return None
                if choices_left == 0:
                    break
                rule = first.statistics_key
                if first.covered.isdisjoint(taken.match.covered) or not statistics.allows(self.effort, rule):
                    continue
                child = local.apply(parent, first, {expander.operand_order(taken.outputs)})
                if child is None:
                    continue
                choices_left -= 1
                if (self.effort, expander.operand_order(child.outputs)) in self._failed:
                    continue
                found, before = child, self.expanded
                for _ in range(2):
                    if not local.is_gain(found, self.base):
                        found = local.beam_search(found, self.base, *plan.backjump_beam, plan.max_uphill)
                        found = local.descend(found, keep_core=True)
                improved = local.is_gain(found, self.base)
                statistics.record(self.effort, rule, improved, self.expanded - before)
                if improved:
                    return found
                self._failed.add((self.effort, expander.operand_order(child.outputs)))
        return None
