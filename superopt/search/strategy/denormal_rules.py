"""Rules whose worth is in the values that are computed with: these stay in the normal numbers of their format.

No cost of an operator tells that, as it is the same whatever the values are. So such a rule is no move of the search:
it is applied wherever it fits in a region, and the region's timing, with the model's own weights, says whether that
pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from superopt.ir.term import Term
from superopt.search.cost.region_timer import Gain
from superopt.search.match.graph_index import run_time_terms
from superopt.search.strategy.context import Shared
from superopt.search.strategy.expander import Expander
from superopt.search.strategy.state import State

__all__ = ["by_values", "may_fit", "worth"]


def may_fit(outputs: Sequence[Term], shared: Shared) -> bool:
    """A quick look at the operators: False where no such rule can be applied in the graph."""
    at = shared.matcher.rules.candidates
    return any(variant.is_denormal_rule for term in run_time_terms(outputs) for variant in at(term))


def by_values(outputs: Sequence[Term], shared: Shared) -> State:
    """The graph with these rules wherever they are proven to fit; its first state where that is nowhere."""
    expander = Expander(outputs, shared)
    state, before = expander.start, None
    while state is not before:
        before = state
        for found in shared.matcher.matches(expander.view(state), wanted=lambda variant: variant.is_denormal_rule):
            shared.tally[found.compiled.rule_id].matched += 1
            child = expander.child(state, found)
            if child is not None:
                state = child
                break
    return state


def worth(state: State, gain: Gain) -> State:
    """The state at the price that its timing gives it."""
    return replace(state, price=state.price._replace(time_ps=round(state.first.price.time_ps / gain.ratio)))
