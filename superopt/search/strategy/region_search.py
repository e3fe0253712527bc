"""Searching one region: descend greedily, then look for gains that lie behind dearer graphs.

Moves in different places commute, so a plain best-first search drowns in orders of independent moves. But a
gain is a connected series of moves: each touches what an earlier one made, or its surroundings. So from the best
graph so far, each first move within alpha starts a *burst*: a beam search, a few moves deep, over the moves near
what the burst has made, as long as something of what the first move began is there. A burst that finds a better
graph ends, and the descent starts again from there. Moves that pay only together are one (`together.py`). Where an
earlier search has been through both halves of a region, bursts begin at the seam between them (`focus`).

A *detour* takes back a decision: from a graph on the way to the best one, a move in conflict with the one that
was taken (they rewrite a common operator; others are still there later), a burst to make something of it, a
descent that leaves alone what came of it, and both once more.

Efforts grow: bursts become wider and deeper, and detours take back more.

Functions of the runtime's own (FusedGemm, SkipLayerNormalization) cover standard operators, and what is covered no
other rule sees. So the search goes on among standard operators, and the graph it ends with is covered last, as
instructions are selected (Tang and Zhai): cheapest first, where that pays. So are larger constants of the same operator
where they are faster (channels of two groups as one); as a step to something else they come in bursts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from superopt.ir.term import Term, topological
from superopt.search.cost.graph_cost import Price
from superopt.search.match.graph_index import run_time_terms
from superopt.search.match.occurrence import Match
from superopt.search.strategy.context import Shared
from superopt.search.strategy.expander import Expander
from superopt.search.strategy.state import State, fresh, lost, surroundings

__all__ = ["EFFORTS", "RegionSearch"]


class _Effort(NamedTuple):
    """Width and depth of bursts, and of those of detours; after how many dearer graphs in a row both go no further;
    with how many of the moves against one taken detours begin."""

    burst: tuple[int, int]
    detour: tuple[int, int]
    dearer: int
    choices: int


# Nearly all gains come from descents, narrow bursts, and the next best decision; and hardly one from a third step
# where none of those before it led to a graph as cheap as the best.
_PLAN = (_Effort((2, 3), (3, 3), 2, 1), _Effort((4, 4), (4, 4), 4, 1000), _Effort((12, 6), (12, 6), 6, 1000))
EFFORTS = len(_PLAN)

# The search of a region ends when as many graphs as its luck has patience for were expanded since its best one was
# found, or this many times as many as it took to find that; with more efforts so many times more.
_PATIENCE_FACTOR = 1.5

# Different results of a region that are kept, to be timed where the best one disappoints.
_ELITE = 32


class RegionSearch:
    """The search of one region; `improve` can be called again and again, with growing effort."""

    def __init__(
        self,
        outputs: Sequence[Term],
        shared: Shared,
        *,
        alpha: float = 2.0,
        limit: int = 4000,
        efforts: int = 1,
        focus: frozenset[Term] | None = None,
    ) -> None:
        self._luck, self._meter, self.alpha, self.limit = shared.luck, shared.meter, alpha, limit
        self._expander = Expander(outputs, shared, focus)
        self.efforts = efforts
        self.start = self._expander.start
        self.best = self.start  # what the search makes of the region
        self.base = self.start  # the same before functions are chosen
        self.deadline = float("inf")
        self.effort = 0  # the next effort to make
        self._sites_only = False
        self._elite: dict[int, State] = {}
        # Bursts and detours that found nothing, by effort and first graph.
        self._fruitless: set[tuple[int, tuple[Term, ...]]] = set()
        self._covered: State | None = None  # what functions were last chosen for
        self._begun = 0  # how many graphs were expanded when the search began, anew perhaps
        self._found = 0  # how many were when the best one was found

    @property
    def expanded(self) -> int:
        """How many graphs were expanded."""
        return self._expander.expanded

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing more to do."""
        # What was found shows how long it may take to find more.
        patience = max(self._luck.patience * self.efforts, round((self._found - self._begun) * (_PATIENCE_FACTOR - 1)))
        return self.effort >= self.efforts or self.expanded >= min(self.limit, self._found + patience)

    def candidates(self) -> list[State]:
        """Improvements that differ in cost by 2% or more, best first."""
        found: list[State] = []
        for state in sorted((self.best, *self._elite.values()), key=lambda state: state.price):
            if state.price < self.start.price and (not found or state.price.time_ps > 1.02 * found[-1].price.time_ps):
                found.append(state)
        return found

    @property
    def saving(self) -> int:
        """What the best graph saves, in picoseconds."""
        return self.start.price.time_ps - self.best.price.time_ps

    @property
    def promise(self) -> float:
        """By what factor the best graph is cheaper than the first."""
        return self.start.price.time_ps / max(1, self.best.price.time_ps)

    def distrust(self) -> None:
        """The best graphs were measured, and are not what they promised: the search begins anew, without the rule whose
        steps promised most of the best one."""
        saved: dict[str, int] = {}
        for state in self.best.path():
            assert state.parent is not None and state.move is not None
            rule = state.move.compiled.rule_id
            saved[rule] = saved.get(rule, 0) + state.parent.price.time_ps - state.price.time_ps
        rule = max(saved, key=lambda rule: saved[rule])
        self._expander.distrusted.add(rule)
        self._luck.broken(rule)
        self._elite.clear()
        self.best = self.base = self.start
        self.effort, self._begun = self.efforts if self._sites_only else 0, self.expanded
        self._found = self.expanded

    def merge(self) -> None:
        """Makes the best moves that merge sites, and what pays after them, if that pays, and nothing else.

        What was merged once is merged on, along the users of the sites: parts pay where they are no longer read apart.
        """
        self._sites_only = True
        for _, found in self._expander.moves(self.start, bound=self.alpha * self.base.price.time_ps, merges=True):
            state = self._child(self.start, found)
            while state is not None:
                self._accept(state)
                state = self._merged_on(state)
        self.best, self.effort = self.base, self.efforts

    def _merged_on(self, state: State) -> State | None:
        """The graph with fewer operators to which a move of several outputs leads, whatever that costs; from below, so
        that operands are merged before what joins them."""
        depth: dict[Term, int] = {}
        for term in topological(state.outputs):
            depth[term] = 1 + max((depth[i] for i in term.inputs if i is not None), default=0)
        moves = self._expander.moves(state, several=True)
        for price, found in sorted(moves, key=lambda item: max(map(depth.__getitem__, item[1].roots))):
            child = self._child(state, found) if price.nodes < state.price.nodes else None
            if child is not None and child.price.nodes < state.price.nodes:
                return child
        return None

    def improve(self, deadline: float = float("inf")) -> bool:
        """Makes the next effort, until `deadline` (of the meter). Whether it was completed."""
        self.deadline = deadline
        if self.exhausted:
            return True
        try:
            return self._improve()
        finally:
            self._expander.tidy()

    def _improve(self) -> bool:
        if self.effort == 0 and self.base is self.start:
            self._accept(self._descend(self.start))
            self._cover()
        plan = _PLAN[self.effort]
        while not self._over():
            found = self._bursts(*plan.burst, plan.dearer) or self._detours(*plan.detour, plan.dearer, plan.choices)
            if found is None:
                break
            self._accept(self._descend(found))
        self._cover()
        if self._over() and not self.exhausted:
            return False
        self.effort += 1
        return True

    def _cover(self) -> None:
        """Chooses functions for what was found."""
        if self._covered is self.base:
            return
        expanded = self.expanded
        covered = self._descend(self.base, functions=True)
        self._expander.expanded = expanded
        self._covered = None if self._late else self.base
        if covered.price < self.best.price:
            self.best = fresh(covered)

    def _over(self) -> bool:
        return self.exhausted or self._late

    @property
    def _late(self) -> bool:
        return self._meter.over or self._meter.spent_s >= self.deadline

    def _accept(self, state: State) -> None:
        if state.price < self.base.price:
            self.base = fresh(state)
            self._found = self.expanded

    def _child(self, state: State, found: Match, seen: set[tuple[Term, ...]] | None = None) -> State | None:
        """The expander's child of that name; the best ones are kept."""
        child = self._expander.child(state, found, seen)
        if child is None or child.price.time_ps >= self.start.price.time_ps:
            return child
        if child.price < self._elite.get(child.price.time_ps, self.start).price:
            self._elite[child.price.time_ps] = child
            if len(self._elite) > _ELITE:
                del self._elite[max(self._elite)]
        return child

    def _descend(self, state: State, keep: bool = False, functions: bool = False) -> State:
        """The cheapest moves, as long as some are cheaper, and before them those that only change constants; with
        `keep`, none that undoes the whole core. Functions are chosen however patient the search still is.

        A move that was no gain is none after a move elsewhere. So after the first look at all of the graph, only what
        was a gain and what the last moves have touched is looked at again.
        """
        near: frozenset[Term] | None = None
        while not (self._late if functions else self._over()):
            moves = self._expander.moves(state, near, bound=state.price.time_ps, functions=functions)
            cheaper = [(price, found) for price, found in moves if price < state.price]
            if not functions:  # constants first: what stands between two products keeps them from being one
                cheaper.sort(key=lambda item: not item[1].folds_into_weights)
            lower = self._lower(state, cheaper, keep, functions)
            if lower is state:
                break
            near = lower.since(state, frozenset().union(*(found.touched for _, found in cheaper)))
            state = lower
        return state

    def _lower(self, state: State, cheaper: Iterable[tuple[Price, Match]], keep: bool, functions: bool) -> State:
        """The graph after the cheapest move, and the same at other places: what touches nothing in common would be
        found again, so one look at the graph serves for all of it. `state` where none can be made."""
        best: State | None = None
        chosen: list[Match] = []
        touched: set[Term] = set()
        for price, found in cheaper:
            if not functions and found.rewrites_only_weights and price.weight_bytes > state.price.weight_bytes:
                continue  # a choice of kernels, too
            if best is None:
                child = self._child(state, found)
                if child is None or child.price >= state.price or (keep and lost(child)):
                    continue
                best = child
                if len(found.roots) > 1:  # with other moves it might make a cycle
                    break
            elif len(found.roots) > 1 or found.compiled.rule_id != chosen[0].compiled.rule_id:
                continue
            if touched.isdisjoint(found.touched):
                chosen.append(found)
                touched |= found.touched
        if best is None or len(chosen) < 2:
            return best or state
        place, lower = self._expander.view(state).position, state
        # Users first: a term is another one as soon as what it is computed from is.
        for found in sorted(chosen, key=lambda found: place[found.roots[0]], reverse=True):
            if found.roots[0] in run_time_terms(lower.outputs):
                child = self._child(lower, found)
                if child is not None and child.price < lower.price and not (keep and lost(child)):
                    lower = child
        return min(lower, best, key=lambda state: state.price)

    def _bursts(self, width: int, depth: int, dearer: int) -> State | None:
        """A state better than the best, found by a burst from one of the first moves; None where there is none."""
        self._expander.usual = frozenset(run_time_terms(self.base.outputs))
        for _, first in sorted(
            self._expander.moves(self.base, self.base.focus, bound=self.alpha * self.base.price.time_ps),
            key=lambda item: not self._luck.has_gained(item[1].statistics_key),
        ):
            if self._over():
                return None
            rule = first.statistics_key
            child = self._child(self.base, first) if self._luck.allows(self.effort, rule) else None
            if child is None:
                continue
            key = (self.effort, self._expander.normal(child.outputs))
            if key in self._fruitless:
                continue
            before = self.expanded
            found = self._burst(child, width, depth, dearer)
            self._luck.tell(self.effort, rule, found.price < self.base.price, self.expanded - before)
            if found.price < self.base.price:
                return found
            self._fruitless.add(key)
        return None

    def _detours(self, width: int, depth: int, dearer: int, choices: int) -> State | None:
        """A state better than the best, found by deciding otherwise on the way to it, late decisions first; None where
        there is none."""
        for taken in reversed(self.base.path()):
            left = choices
            assert taken.parent is not None and taken.move is not None
            parent = fresh(taken.parent)
            self._expander.usual = frozenset(run_time_terms(parent.outputs))
            for _, first in self._expander.moves(parent, parent.focus, bound=self.alpha * parent.price.time_ps):
                if self._over():
                    return None
                if left == 0:
                    break
                rule = first.statistics_key
                if first.covered.isdisjoint(taken.move.covered) or not self._luck.allows(self.effort, rule):
                    continue
                child = self._child(parent, first, {self._expander.normal(taken.outputs)})
                if child is None:
                    continue
                left -= 1
                if (self.effort, self._expander.normal(child.outputs)) in self._fruitless:
                    continue
                found, before = child, self.expanded
                for _ in range(2):
                    if found.price >= self.base.price:
                        found = self._descend(self._burst(found, width, depth, dearer), keep=True)
                self._luck.tell(self.effort, rule, found.price < self.base.price, self.expanded - before)
                if found.price < self.base.price:
                    return found
                self._fruitless.add((self.effort, self._expander.normal(child.outputs)))
        return None

    def _burst(self, first: State, width: int, depth: int, dearer: int) -> State:
        """The cheapest state of a beam search from `first`, which ends where a state is better than the best. It goes
        no further from more states in a row than `dearer` that are dearer than that."""
        cheapest = first
        bound = self.alpha * max(first.price.time_ps, self.base.price.time_ps)
        seen = {self._expander.normal(self.base.outputs), self._expander.normal(first.outputs)}
        level, uphill = [first], {first: 0}
        for further in reversed(range(depth)):
            if cheapest.price < self.base.price:
                break
            waiting: list[tuple[Price, int, State, Match]] = []
            for state in level:
                uphill[state] = uphill[state] + 1 if state.price.time_ps > self.base.price.time_ps else 0
                if uphill[state] <= dearer:
                    for price, found in self._expander.moves(state, surroundings(state.made), bound):
                        waiting.append((price, len(waiting), state, found))
            level = []
            for price, _, parent, found in sorted(waiting, key=lambda item: item[:2]):
                if self._over() or len(level) == width or not (further or price < cheapest.price):
                    break
                child = self._child(parent, found, seen)
                if child is not None and not lost(child):
                    level.append(child)
                    uphill[child] = uphill[parent]
                    if child.price < cheapest.price:
                        cheapest = child
        return cheapest
