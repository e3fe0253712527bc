"""Local search in one region: greedy descent and local beam search, the building blocks of region search.

*Descent* applies the cheapest rewrites as long as there are rewrites that make the graph cheaper.

A *local beam search* looks for a gain that is reached only through more expensive graphs. It is a beam search of small
width and depth over the rewrites near the terms that it has created. It ends at a graph cheaper than the incumbent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from superopt.ir.term import Term, topological
from superopt.properties import changes_shape_only, moves
from superopt.search.cost.graph_cost import Price
from superopt.search.match.graph_index import GraphIndex, run_time_terms
from superopt.search.match.occurrence import Match
from superopt.search.strategy.expander import Expander, PricedMatch
from superopt.search.strategy.search_context import SearchContext
from superopt.search.strategy.selections import keeps_rank, movable_selections, selected_operator
from superopt.search.strategy.state import SearchState, has_lost_core, neighbourhood

__all__ = ["LocalSearch", "merely_move"]

_MAX_RUNNERS_UP = 32  # results of a region that are kept, to be timed if the best one is measured to be slower
_MIN_COST_RATIO_OF_CANDIDATES = 1.02


class LocalSearch:
    """Local search in the graphs of one region. It keeps the cheapest graphs that it has reached.

    `alpha` is the largest allowed ratio of a graph's cost to the incumbent's on the way to a gain. `stopped()` is True
    when the search of the region is over (out of time, or stalled), `out_of_time()` when its time is over. Kernel
    selection only ends when the time is over.
    """

    def __init__(
        self,
        outputs: Sequence[Term],
        context: SearchContext,
        *,
        alpha: float,
        focus: frozenset[Term] | None,
        stopped: Callable[[], bool],
        out_of_time: Callable[[], bool],
    ) -> None:
        self.expander = Expander(outputs, context, focus)
        self.start = self.expander.start
        self.alpha = alpha
        self._guard = context.guard
        self._stopped, self._out_of_time = stopped, out_of_time
        self._runners_up: dict[int, SearchState] = {}  # by time

    def candidates(self, best: SearchState) -> list[SearchState]:
        """Return the improvements found, `best` among them, that differ in cost by 2% or more, cheapest first."""
        found: list[SearchState] = []
        for state in sorted((best, *self._runners_up.values()), key=lambda state: state.price):
            if state.price < self.start.price and (
                not found or state.price.time_ps > _MIN_COST_RATIO_OF_CANDIDATES * found[-1].price.time_ps
            ):
                found.append(state)
        return found

    def is_gain(self, child: SearchState, state: SearchState) -> bool:
        """Return True if `child` is cheaper than `state`, and not slower at any size."""
        return child.price < state.price and not self._guard.is_slower(child.outputs, state.outputs)

    def forget_candidates(self) -> None:
        """Forget the improvements found so far."""
        self._runners_up.clear()

    def apply(self, state: SearchState, found: Match, seen: set[tuple[Term, ...]] | None = None) -> SearchState | None:
        """Return the state after a rewrite (see `Expander.apply`); keep it if it is one of the cheapest."""
        child = self.expander.apply(state, found, seen)
        if child is None or child.price.time_ps >= self.start.price.time_ps:
            return child
        known = self._runners_up.get(child.price.time_ps, self.start)
        if child.price < known.price and self.is_gain(child, self.start):
            self._runners_up[child.price.time_ps] = child
            if len(self._runners_up) > _MAX_RUNNERS_UP:
                del self._runners_up[max(self._runners_up)]
        return child

    def descend(self, state: SearchState, keep_core: bool = False, select_kernels: bool = False) -> SearchState:
        """Return the state after greedy descent: apply the cheapest rewrites as long as they make the graph cheaper.

        Rewrites that fold into constants come first. With `keep_core`, no rewrite may remove the whole core of the
        state. Kernels are selected until the time is over, even if the search of the region has stalled.

        A rewrite without a gain still has none after a rewrite elsewhere. So the first expansion covers the whole
        graph, and later expansions cover the rewrites that were a gain and the neighbourhood of the last rewrites.
        """
        near: frozenset[Term] | None = None
        while not (self._out_of_time() if select_kernels else self._stopped()):
            rewrites = self.expander.expand(state, near, max_time_ps=state.price.time_ps, select_kernels=select_kernels)
            cheaper = [item for item in rewrites if item.price < state.price]
            if not select_kernels:  # a constant factor between two products keeps them from being merged
                cheaper.sort(key=lambda item: not item.match.folds_into_weights)
            lower = self._descend_once(state, cheaper, keep_core, select_kernels)
            if lower is state:
                break
            near = lower.touched_since(state, frozenset().union(*(item.match.touched for item in cheaper)))
            state = lower
        return state

    def _descend_once(
        self, state: SearchState, cheaper: Iterable[PricedMatch], keep_core: bool, select_kernels: bool
    ) -> SearchState:
        """Apply the first applicable rewrite, and all rewrites by the same rule that touch no common terms.

        The next expansions would find the further rewrites again, so applying all of them saves expansions. Returns
        `state` if no rewrite can be applied.
        """
        best: SearchState | None = None
        chosen: list[Match] = []
        touched: set[Term] = set()
        for price, found in cheaper:
            grows_weights = price.weight_bytes > state.price.weight_bytes
            if not select_kernels and found.rewrites_only_weights and grows_weights:
                continue  # the same operator with larger constants: a selection of kernels, too
            if best is None:
                child = self.apply(state, found)
                if child is None or not self.is_gain(child, state) or (keep_core and has_lost_core(child)):
                    continue
                best = child
                if len(found.roots) > 1:  # combined with other rewrites it could create a cycle
                    break
            elif len(found.roots) > 1 or found.compiled.rule_id != chosen[0].compiled.rule_id:
                continue
            if touched.isdisjoint(found.touched):
                chosen.append(found)
                touched |= found.touched
        if best is None or len(chosen) < 2:
            return best or state
        position, lower = self.expander.index(state).position, state
        # Users come first, because a rewrite changes all terms above its root.
        for found in sorted(chosen, key=lambda found: position[found.roots[0]], reverse=True):
            if found.roots[0] in run_time_terms(lower.outputs):
                child = self.apply(lower, found)
                if child is not None and self.is_gain(child, lower) and not (keep_core and has_lost_core(child)):
                    lower = child
        return min(lower, best, key=lambda state: state.price)

    def beam_search(
        self, first: SearchState, incumbent: SearchState, width: int, depth: int, max_uphill: int
    ) -> SearchState:
        """Return the best state of a local beam search that begins at `first`: a gain, else the cheapest.

        The search ends when a state is a gain over the incumbent. A path ends after more than `max_uphill` states in a
        row that are more expensive than the incumbent.
        """
        best, best_is_gain = first, self.is_gain(first, incumbent)
        max_time_ps = self.alpha * max(first.price.time_ps, incumbent.price.time_ps)
        order = self.expander.operand_order
        seen = {order(incumbent.outputs), order(first.outputs)}
        level, uphill = [first], {first: 0}
        for levels_left in reversed(range(depth)):
            if best_is_gain:
                break
            waiting: list[tuple[Price, int, SearchState, Match]] = []
            for state in level:
                uphill[state] = uphill[state] + 1 if state.price.time_ps > incumbent.price.time_ps else 0
                if uphill[state] <= max_uphill:
                    for price, found in self.expander.expand(state, neighbourhood(state.created), max_time_ps):
                        waiting.append((price, len(waiting), state, found))
            level = []
            for price, _, parent, found in sorted(waiting, key=lambda item: item[:2]):
                # The last level is only for states that may become the best one.
                least = best.price if best_is_gain else max(best.price, incumbent.price)
                if self._stopped() or len(level) == width or not (levels_left or price < least):
                    break
                child = self.apply(parent, found, seen)
                if child is not None and not has_lost_core(child):
                    level.append(child)
                    uphill[child] = uphill[parent]
                    is_gain = self.is_gain(child, incumbent)
                    if (not is_gain, child.price) < (not best_is_gain, best.price):
                        best, best_is_gain = child, is_gain
        return best

    def continue_fusion(self, state: SearchState) -> SearchState | None:
        """Return a state with fewer operators after one rewrite with several roots, whatever its cost; None if none.

        Rewrites near the inputs come first, so that operands are merged before the operators that join them. Operators
        that `merely_move` data are not merged.
        """
        depth: dict[Term, int] = {}
        for term in topological(state.outputs):
            depth[term] = 1 + max((depth[i] for i in term.inputs if i is not None), default=0)
        rewrites = self.expander.expand(state, multi_root_only=True)
        for price, found in sorted(rewrites, key=lambda item: max(map(depth.__getitem__, item.match.roots))):
            is_smaller = price.nodes < state.price.nodes and not merely_move(found.roots)
            child = self.apply(state, found) if is_smaller else None
            if child is not None and child.price.nodes < state.price.nodes:
                return child
        return None

    def push_selection(self, state: SearchState) -> SearchState | None:
        """Return a state in which a selection is below the operator that computed what it read; None if there is none.

        The last selections come first, whatever the state costs. A selection that drops an axis is written as one that
        keeps it, where a rule says how: two operators that read a value then select from it in the same way.
        """
        index = GraphIndex(state.outputs)
        for selection in movable_selections(index):
            pushed = self._rewritten_and_pushed(state, selection, index) or self._pushed(state, selection, index)
            if pushed is not None:
                return pushed
        return None

    def _rewritten_and_pushed(self, state: SearchState, selection: Term, index: GraphIndex) -> SearchState | None:
        """Return the state after `selection`, which drops an axis, is written as one that does not and is moved."""
        if keeps_rank(selection):
            return None
        value = selected_operator(selection, index)
        for found in self.expander.rewrites_of(selection, index):
            kept = [term for term in found.created if keeps_rank(term) and term.op != "Out" and value in term.inputs]
            child = self.apply(state, found) if kept else None
            if child is not None:
                now = GraphIndex(child.outputs)
                pushed = [self._pushed(child, term, now) for term in kept if term in now.position]
                return next((after for after in pushed if after is not None), None)
        return None

    def _pushed(self, state: SearchState, selection: Term, index: GraphIndex) -> SearchState | None:
        """Return the state after `selection` is moved, or None."""
        value = selected_operator(selection, index)
        if value is None:
            return None
        for found in self.expander.rewrites_of(selection, index):
            child = None if value in run_time_terms(found.results) else self.apply(state, found)
            if child is not None:
                return child
        return None


def merely_move(siblings: Sequence[Term]) -> bool:
    """Return True if all siblings move data in memory and compute nothing.

    One Transpose of the keys of several attentions saves little, and no rule for an attention sees its own keys then.
    """
    return all(moves(sibling.op) and not changes_shape_only(sibling.op) for sibling in siblings)
