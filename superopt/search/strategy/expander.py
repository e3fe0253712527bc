"""Expansion of states: finds the rewrites of a graph, prices the graph after each, and makes the next states."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from superopt.ir.term import Term
from superopt.ir.trace import Step
from superopt.rulebook.commutative import OperandOrder
from superopt.search.apply import replace_roots
from superopt.search.cost.graph_cost import Price
from superopt.search.cost.incremental import IncrementalCost
from superopt.search.match.compiled_rule import CompiledRule
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.occurrence import Match
from superopt.search.strategy.compound_match import CompoundMatch, compound_matches
from superopt.search.strategy.search_context import SearchContext
from superopt.search.strategy.state import SearchState

__all__ = ["Expander", "PricedMatch"]

# Times that differ by less than this share of the region's time are equal, because measurements are no more exact.
# The region's time is taken without the time of reading weights, which no rule makes shorter.
_PRICE_RESOLUTION = 0.001

_MAX_REMEMBERED_GRAPHS = 256  # several paths lead to the same graph


class PricedMatch(NamedTuple):
    """A rewrite, and the price of the graph after it."""

    price: Price
    match: Match


class Expander:
    """Expands the graphs of one region, beginning with the state `start`. `expanded` counts the expansions.

    Rules in `excluded_rules`, and rules that the statistics call unreliable, are not used. `known_terms` do not count
    as created when a rewrite makes them again.
    """

    def __init__(
        self,
        outputs: Sequence[Term],
        context: SearchContext,
        focus: frozenset[Term] | None = None,
    ) -> None:
        self._context = context
        whole = context.cost.price(outputs)
        compute_ps = whole.time_ps - context.cost.weight_read_ps(whole.weight_bytes)
        # A constant that takes longer to fold is not made; what the graph folds anyway is allowed.
        self._max_folding_ps = max(context.cost.max_folding_ps, whole.folding_ps)
        self._quantum_ps = max(1, round(compute_ps * _PRICE_RESOLUTION))
        self.start = SearchState(tuple(outputs), self._rounded(whole), focus=focus)
        self.excluded_rules: set[str] = set()
        self.known_terms: Collection[Term] = frozenset()
        self.expanded = 0
        self.operand_order = OperandOrder()
        self._graphs: dict[tuple[Term, ...], IncrementalCost] = {}

    def trim(self) -> None:
        """Free memory: a model may have a thousand regions."""
        self._context.matcher.trim()
        self.operand_order = OperandOrder()
        self._graphs.clear()

    def index(self, state: SearchState) -> GraphIndex:
        """Return the index of the state's graph."""
        return self._graph(state.outputs).index

    def touched_ps(self, state: SearchState, found: Match) -> int:
        """Return the picoseconds that a state takes where a rewrite touches it."""
        return self._graph(state.outputs).time_ps(found.touched)

    def _graph(self, outputs: tuple[Term, ...]) -> IncrementalCost:
        if outputs not in self._graphs:
            if len(self._graphs) >= _MAX_REMEMBERED_GRAPHS:
                del self._graphs[next(iter(self._graphs))]
            self._graphs[outputs] = IncrementalCost(self._context.cost, GraphIndex(outputs))
        return self._graphs[outputs]

    def _rounded(self, price: Price) -> Price:
        return Price(round(price.time_ps / self._quantum_ps) * self._quantum_ps, *price[1:])

    def expand(
        self,
        state: SearchState,
        near: frozenset[Term] | None = None,
        max_time_ps: float = float("inf"),
        *,
        siblings_only: bool = False,
        multi_root_only: bool = False,
        select_kernels: bool = False,
    ) -> list[PricedMatch]:
        """Return the rewrites of a state to graphs of at most `max_time_ps`, in the order of their prices.

        Four options restrict the rewrites. `near`: only rewrites that touch one of these terms. `siblings_only`: only
        rewrites that merge sibling operators. `multi_root_only`: only rewrites with several roots. `select_kernels`:
        only rewrites that select kernels; otherwise, rewrites that introduce one are left out.
        """
        self.expanded += 1
        graph = self._graph(state.outputs)
        priced: list[PricedMatch] = []
        too_expensive: list[PricedMatch] = []  # on their own; a compound match may contain them
        seen: set[tuple[tuple[Term, ...], tuple[Term, ...]]] = set()
        wanted = partial(self._is_wanted, select_kernels)

        def price_after(found: Match) -> Price:
            return self._rounded(graph.price(found.roots, found.results))

        matcher = self._context.matcher
        if siblings_only:
            matches = matcher.sibling_matches(graph.index, near, wanted)
        else:
            matches = matcher.matches(graph.index, near, wanted, multi_root_only)
        for found in matches:
            key = (found.roots, self.operand_order(found.results))
            if key in seen:
                continue
            seen.add(key)
            self._context.report[found.compiled.rule_id].matched += 1
            price = price_after(found)
            if price.time_ps == state.price.time_ps and price >= state.price and found.rewrites_only_weights:
                continue
            (priced if price.time_ps <= max_time_ps else too_expensive).append(PricedMatch(price, found))
        if not (siblings_only or select_kernels or multi_root_only):
            compounds = compound_matches((*priced, *too_expensive), state.price, graph.index, price_after)
            priced += [PricedMatch(price, found) for price, found in compounds if price.time_ps <= max_time_ps]
        priced.sort(key=lambda item: item.price)
        self._context.budget.charge_expansion(len(graph.index.position), len(seen))
        return priced

    def rewrites_of(self, root: Term, index: GraphIndex) -> list[Match]:
        """Return the rewrites that replace the term `root` of a graph and no other, without prices."""
        self.expanded += 1
        found = list(self._context.matcher.matches(index, frozenset({root}), partial(self._is_wanted, False)))
        self._context.budget.charge_expansion(len(index.position), len(found))
        return [match for match in found if match.roots == (root,)]

    def _is_wanted(self, select_kernels: bool, compiled: CompiledRule) -> bool:
        """Return True for a rule that selects kernels or, without `select_kernels`, introduces none."""
        if compiled.is_denormal_rule or compiled.is_algorithm:
            return False
        if not compiled.selects_kernel if select_kernels else compiled.introduces_kernel:
            return False
        rule = compiled.rule_id
        return not (rule in self.excluded_rules or self._context.statistics.is_unreliable(rule))

    def apply(self, state: SearchState, found: Match, seen: set[tuple[Term, ...]] | None = None) -> SearchState | None:
        """Return the state after a rewrite; None if the rule is not proven there, the graph is in `seen`, or constants
        take too long to fold.

        A new graph is added to `seen`. Graphs that differ only in the order of commutative operands are the same.
        """
        if isinstance(found, CompoundMatch):
            reached: SearchState | None = state
            for part in found.parts:
                reached = self.apply(reached, part, seen if part is found.parts[-1] else None) if reached else None
            return reached
        attempts = self._context.report[found.compiled.rule_id]
        outputs, substitution = replace_roots(state.outputs, found.roots, found.results)
        key = None if seen is None else self.operand_order(outputs)
        if seen is not None and key in seen:  # first, because a proof takes longer
            return None
        signature = self._context.check(found.compiled.listed, found.bindings)
        if signature is None:
            attempts.unproven += 1
            return None
        if seen is not None and key is not None:
            seen.add(key)
        attempts.tried += 1
        graph = self._graphs.get(state.outputs)
        price = graph.exact_price(found.roots, found.results, substitution.values()) if graph is not None else None
        price = self._rounded(self._context.cost.price(outputs) if price is None else price)
        if price.folding_ps > self._max_folding_ps:
            return None
        step = Step(found.compiled.rule, signature, found.roots)
        child = SearchState(outputs, price, state, step, found, substitution=substitution)
        new = found.created.difference(self.known_terms)
        created, core = child.translated(state.created) | new, child.translated(state.core)
        if not state.core or not state.core.isdisjoint(found.covered):
            core |= new
        focus = None if state.focus is None else child.translated(state.focus) | found.created
        return replace(child, created=created, core=core, focus=focus)
