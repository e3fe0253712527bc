"""A graph that the search of a region has reached, and the way to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from superopt.ir.term import Term
from superopt.ir.trace import Rewrite, Step
from superopt.search.cost.graph_cost import Price
from superopt.search.match.graph_index import run_time_terms
from superopt.search.match.occurrence import Match

__all__ = ["State", "fresh", "lost", "surroundings"]


@dataclass(frozen=True, eq=False)
class State:
    """A graph that was reached, and how.

    `made` is what the moves of this burst made, `core` the part of it that comes of the burst's first move. Where
    `focus` is given, bursts begin there only. `moved`: what those terms of the parent have become that are computed
    from what the move rewrote.
    """

    outputs: tuple[Term, ...]
    price: Price
    parent: State | None = None
    step: Step | None = None
    move: Match | None = None
    made: frozenset[Term] = frozenset()
    core: frozenset[Term] = frozenset()
    focus: frozenset[Term] | None = None
    moved: Mapping[Term, Term] = field(default_factory=dict)

    def carried(self, terms: Iterable[Term]) -> frozenset[Term]:
        """What those terms of the parent are here."""
        return frozenset(self.moved.get(term, term) for term in terms)

    def since(self, ancestor: State, terms: frozenset[Term]) -> frozenset[Term]:
        """What those terms of the ancestor are here, and the surroundings of what was made on the way."""
        made: frozenset[Term] = frozenset()
        for state in self.path(ancestor):
            terms, made = state.carried(terms), state.carried(made)
            if state.move is not None:
                made |= state.move.created
        return terms | surroundings(made)

    def path(self, ancestor: State | None = None) -> list[State]:
        """All states from the first one, or `ancestor` (both excepted), to this one."""
        found: list[State] = []
        state: State | None = self
        while state is not None and state is not ancestor and state.parent is not None:
            found.append(state)
            state = state.parent
        return found[::-1]

    @property
    def first(self) -> State:
        """Where the way here begins."""
        state = self
        while state.parent is not None:
            state = state.parent
        return state

    def rewrite(self) -> Rewrite:
        """The steps that lead here."""
        return Rewrite(self.first.outputs, tuple(s.step for s in self.path() if s.step is not None), self.outputs)

    def rules(self) -> list[str]:
        """Id of the rule of each step, as it stands in the rule set."""
        return [state.move.compiled.rule_id for state in self.path() if state.move is not None]


def fresh(state: State) -> State:
    """The state as the first one of a burst."""
    return replace(state, made=frozenset(), core=frozenset())


def lost(state: State) -> bool:
    """Whether nothing is left of what the first move of the burst began."""
    return state.core.isdisjoint(run_time_terms(state.outputs))


def surroundings(made: frozenset[Term]) -> frozenset[Term]:
    """What was made and what it reads: a move that touches any of it may go on from there."""
    return made | {i for term in made for i in term.inputs if i is not None and not i.weight_only}
