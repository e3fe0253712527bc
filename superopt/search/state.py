"""A graph that the search of a region has reached, and the way to it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from superopt.ir.term import Term
from superopt.ir.trace import Rewrite, Step
from superopt.search.graph_cost import Price
from superopt.search.moves import Match
from superopt.search.view import run_time_terms

__all__ = ["State", "fresh", "lost", "surroundings"]


@dataclass(frozen=True, eq=False)
class State:
    """A graph that was reached, and how.

    `made` is what the moves of this burst made, `core` the part of it that comes of the burst's first move.
    """

    outputs: tuple[Term, ...]
    price: Price
    parent: State | None = None
    step: Step | None = None
    move: Match | None = None
    made: frozenset[Term] = frozenset()
    core: frozenset[Term] = frozenset()

    def path(self) -> list[State]:
        """All states from the first one (excepted) to this one."""
        found: list[State] = []
        state: State | None = self
        while state is not None and state.parent is not None:
            found.append(state)
            state = state.parent
        return found[::-1]

    def rewrite(self) -> Rewrite:
        """The steps that lead here."""
        path = self.path()
        before = path[0].parent.outputs if path and path[0].parent is not None else self.outputs
        return Rewrite(before, tuple(s.step for s in path if s.step is not None), self.outputs)

    def rules(self) -> list[str]:
        """Id of the rule of each step, as it stands in the rule set."""
        return [state.move.variant.origin for state in self.path() if state.move is not None]


def fresh(state: State) -> State:
    """The state as the first one of a burst."""
    return replace(state, made=frozenset(), core=frozenset())


def lost(state: State) -> bool:
    """Whether nothing is left of what the first move of the burst began."""
    return state.core.isdisjoint(run_time_terms(state.outputs))


def surroundings(made: frozenset[Term]) -> frozenset[Term]:
    """What was made and what it reads: a move that touches any of it may go on from there."""
    return made | {i for term in made for i in term.inputs if i is not None and not i.weight_only}
