"""Search states: the graphs that the search of a region has reached, each with the path that led to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from superopt.ir.term import Term
from superopt.ir.trace import Rewrite, Step
from superopt.search.cost.graph_cost import Price
from superopt.search.match.graph_index import run_time_terms
from superopt.search.match.occurrence import Match

__all__ = ["SearchState", "as_search_root", "has_lost_core", "neighbourhood"]


@dataclass(frozen=True, eq=False)
class SearchState:
    """A graph that was reached: its price, and the step and match that lead to it from `parent`.

    A local beam search maintains two sets of terms: `created`, the terms that its rewrites have created, and `core`,
    the terms that come from its first rewrite. If `focus` is given, beam searches begin with rewrites that touch it.
    `substitution` maps terms of the parent above the rewritten roots to their new terms.
    """

    outputs: tuple[Term, ...]
    price: Price
    parent: SearchState | None = None
    step: Step | None = None
    match: Match | None = None
    created: frozenset[Term] = frozenset()
    core: frozenset[Term] = frozenset()
    focus: frozenset[Term] | None = None
    substitution: Mapping[Term, Term] = field(default_factory=dict)

    def translated(self, terms: Iterable[Term]) -> frozenset[Term]:
        """Return the terms of this state for `terms` of the parent."""
        return frozenset(self.substitution.get(term, term) for term in terms)

    def touched_since(self, ancestor: SearchState, terms: frozenset[Term]) -> frozenset[Term]:
        """Return the terms of this state for `terms` of the ancestor, with the neighbourhood of terms created since."""
        created: frozenset[Term] = frozenset()
        for state in self.path(ancestor):
            terms, created = state.translated(terms), state.translated(created)
            if state.match is not None:
                created |= state.match.created
        return terms | neighbourhood(created)

    def path(self, ancestor: SearchState | None = None) -> list[SearchState]:
        """Return the states after the first one, or after `ancestor`, up to this one."""
        found: list[SearchState] = []
        state: SearchState | None = self
        while state is not None and state is not ancestor and state.parent is not None:
            found.append(state)
            state = state.parent
        return found[::-1]

    @property
    def first(self) -> SearchState:
        """The state at which the path begins."""
        state = self
        while state.parent is not None:
            state = state.parent
        return state

    def rewrite(self) -> Rewrite:
        """Return the steps of the path as a rewrite."""
        return Rewrite(self.first.outputs, tuple(s.step for s in self.path() if s.step is not None), self.outputs)

    def rule_ids(self) -> list[str]:
        """Return the id, in the rule files, of each step's rule."""
        return [state.match.compiled.rule_id for state in self.path() if state.match is not None]


def as_search_root(state: SearchState) -> SearchState:
    """Return the state with empty `created` and `core`, as the beginning of a new local search."""
    return replace(state, created=frozenset(), core=frozenset())


def has_lost_core(state: SearchState) -> bool:
    """Return True if no term is left that the first rewrite of the local search created."""
    return state.core.isdisjoint(run_time_terms(state.outputs))


def neighbourhood(created: frozenset[Term]) -> frozenset[Term]:
    """Return these terms and the run-time terms that they read: a rewrite that touches any of them continues there."""
    return created | {i for term in created for i in term.inputs if i is not None and not i.is_constant}
