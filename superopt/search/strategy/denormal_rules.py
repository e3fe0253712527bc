"""Rules that keep intermediate values out of the denormal numbers, where arithmetic is slow.

The cost of an operator does not depend on its values, so no cost model shows what such a rule gains. Therefore it is no
rewrite of the search. It is applied wherever it fits in a region, and a timing of the region with the model's own
weights decides if it stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from superopt.ir.term import Term
from superopt.search.cost.region_timer import Gain
from superopt.search.match.graph_index import run_time_terms
from superopt.search.strategy.expander import Expander
from superopt.search.strategy.search_context import SearchContext
from superopt.search.strategy.state import SearchState

__all__ = ["apply_denormal_rules", "may_apply_denormal_rules", "with_measured_price"]


def may_apply_denormal_rules(outputs: Sequence[Term], context: SearchContext) -> bool:
    """Return False if a look at the operators shows that no such rule matches in the graph."""
    candidates = context.matcher.rules.candidates
    return any(compiled.is_denormal_rule for term in run_time_terms(outputs) for compiled in candidates(term))


def apply_denormal_rules(outputs: Sequence[Term], context: SearchContext) -> SearchState:
    """Apply these rules wherever they match and are proven. Without such a place, return the first state."""
    expander = Expander(outputs, context)
    state, before = expander.start, None
    while state is not before:
        before = state
        for found in context.matcher.matches(expander.index(state), wanted=lambda compiled: compiled.is_denormal_rule):
            context.report[found.compiled.rule_id].matched += 1
            child = expander.apply(state, found)
            if child is not None:
                state = child
                break
    return state


def with_measured_price(state: SearchState, gain: Gain) -> SearchState:
    """Return the state at the price that its measured speed-up gives it."""
    return replace(state, price=state.price._replace(time_ps=round(state.first.price.time_ps / gain.ratio)))
