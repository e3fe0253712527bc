"""The graphs that the search of a region reaches: their moves, what these lead to, and what it costs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from superopt.ir.infer import remake
from superopt.ir.term import Term, rebuild
from superopt.ir.trace import Step
from superopt.rulebook.commutative import OperandOrder
from superopt.search.cost.graph_cost import Price
from superopt.search.cost.incremental import IncrementalCost
from superopt.search.match.compiled_rule import CompiledRule
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.occurrence import Match
from superopt.search.strategy.compound_match import Joint, joint
from superopt.search.strategy.context import Shared
from superopt.search.strategy.state import State

__all__ = ["Expander"]

# Times of one region that differ by less than this share of it (reading weights aside, which no rule makes faster) are
# the same: measurements say no more.
_DIFFERENCE = 0.001

# Graphs that are kept as they were expanded: other ways lead to them, too.
_GRAPHS = 256


class Expander:
    """Expands graphs of the region `outputs`, whose first state is `start`; `expanded` counts them.

    Rules in `distrusted` are used no more, nor are those that `luck` says are broken. New terms are what a move made,
    `usual` ones aside.
    """

    def __init__(
        self,
        outputs: Sequence[Term],
        shared: Shared,
        focus: frozenset[Term] | None = None,
    ) -> None:
        self._shared = shared
        whole = shared.cost.price(outputs)
        self._quantum = max(1, round((whole.time_ps - shared.cost.weight_read_ps(whole.weight_bytes)) * _DIFFERENCE))
        self.start = State(tuple(outputs), self._rounded(whole), focus=focus)
        self.distrusted: set[str] = set()
        self.usual: Collection[Term] = frozenset()
        self.expanded = 0
        self.normal = OperandOrder()
        self._graphs: dict[tuple[Term, ...], IncrementalCost] = {}

    def tidy(self) -> None:
        """Give back memory: there may be a thousand regions."""
        self._shared.matcher.trim()
        self.normal = OperandOrder()
        self._graphs.clear()

    def view(self, state: State) -> GraphIndex:
        """The graph, indexed."""
        return self._graph(state.outputs).index

    def _graph(self, outputs: tuple[Term, ...]) -> IncrementalCost:
        if outputs not in self._graphs:
            if len(self._graphs) >= _GRAPHS:
                del self._graphs[next(iter(self._graphs))]
            self._graphs[outputs] = IncrementalCost(self._shared.cost, GraphIndex(outputs))
        return self._graphs[outputs]

    def _rounded(self, price: Price) -> Price:
        return Price(round(price.time_ps / self._quantum) * self._quantum, *price[1:])

    def moves(
        self,
        state: State,
        near: frozenset[Term] | None = None,
        bound: float = float("inf"),
        merges: bool = False,
        functions: bool = False,
        several: bool = False,
    ) -> list[tuple[Price, Match]]:
        """Moves and what they lead to, cheapest first: up to a time of `bound`.

        With `near`, only those that touch it; with `merges`, only those that merge sites; with `several`, only those of
        several outputs; with `functions`, only those that choose functions, else none that introduces one.
        """
        self.expanded += 1
        graph = self._graph(state.outputs)
        priced: list[tuple[Price, Match]] = []
        dear: list[tuple[Price, Match]] = []  # more than the bound allows, alone
        seen: set[tuple[tuple[Term, ...], tuple[Term, ...]]] = set()

        def wanted(variant: CompiledRule) -> bool:
            if variant.is_denormal_rule or (not variant.selects_kernel if functions else variant.introduces_kernel):
                return False
            return not (variant.rule_id in self.distrusted or self._shared.luck.is_broken(variant.rule_id))

        def after(found: Match) -> Price:
            return self._rounded(graph.price(found.roots, found.results))

        matcher, view = self._shared.matcher, graph.index
        matches = (
            matcher.sibling_matches(view, near, wanted) if merges else matcher.matches(view, near, wanted, several)
        )
        for found in matches:
            key = (found.roots, self.normal(found.results))
            if key in seen:
                continue
            seen.add(key)
            self._shared.tally[found.compiled.rule_id].matched += 1
            price = after(found)
            if price.time_ps == state.price.time_ps and price >= state.price and found.rewrites_only_weights:
                continue
            (priced if price.time_ps <= bound else dear).append((price, found))
        if not (merges or functions or several):
            made = joint((*priced, *dear), state.price, graph.index, after)
            priced += [(price, found) for price, found in made if price.time_ps <= bound]
        priced.sort(key=lambda item: item[0])
        self._shared.meter.expand(len(graph.index.position), len(seen))
        return priced

    def child(self, state: State, found: Match, seen: set[tuple[Term, ...]] | None = None) -> State | None:
        """The graph after a move; None where the rule is not proven for it, or `seen` has it (else it is added).

        Graphs count as seen whatever the order of commutative operands.
        """
        if isinstance(found, Joint):
            reached: State | None = state
            for part in found.parts:
                reached = self.child(reached, part, seen if part is found.parts[-1] else None) if reached else None
            return reached
        signature = self._shared.check(found.compiled.rule, found.bindings)
        if signature is None:
            self._shared.tally[found.compiled.rule_id].unproven += 1
            return None
        moved: dict[Term, Term] = {}

        def make(old: Term, inputs: tuple[Term | None, ...]) -> Term:
            new = moved[old] = remake(old, inputs)
            return new

        outputs = rebuild(state.outputs, dict(zip(found.roots, found.results, strict=True)), make)
        if seen is not None:
            key = self.normal(outputs)
            if key in seen:
                return None
            seen.add(key)
        self._shared.tally[found.compiled.rule_id].tried += 1
        graph = self._graphs.get(state.outputs)
        price = graph.exact_price(found.roots, found.results, moved.values()) if graph is not None else None
        price = self._rounded(self._shared.cost.price(outputs) if price is None else price)
        step = Step(found.compiled.rule, signature, found.roots)
        child = State(outputs, price, state, step, found, moved=moved)
        made, core = child.carried(state.made) | found.created.difference(self.usual), child.carried(state.core)
        if not state.core or not state.core.isdisjoint(found.covered):
            core |= found.created.difference(self.usual)
        focus = None if state.focus is None else child.carried(state.focus) | found.created
        return replace(child, made=made, core=core, focus=focus)
