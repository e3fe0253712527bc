"""Applies denormal rules: rules that avoid denormal intermediate values, on which arithmetic is slow.

In the cost models, the cost of an operator does not depend on its values, so they cannot show the gain of such a rule.
Therefore the search does not use these rules. They are applied wherever they match in a region, and a timing of the
region with the model's own weights decides if the result is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from superopt.ir.term import Term
from superopt.search.cost.region_timer import Gain
from superopt.search.strategy.expander import Expander
from superopt.search.strategy.search_context import SearchContext
from superopt.search.strategy.state import SearchState

__all__ = ["apply_denormal_rules", "may_apply_denormal_rules", "with_measured_price"]


def may_apply_denormal_rules(outputs: Sequence[Term], context: SearchContext) -> bool:
    """Quick test: return False if the operators show that no denormal rule matches in the graph."""
    return context.may_match(outputs, lambda compiled: compiled.is_denormal_rule)


def apply_denormal_rules(outputs: Sequence[Term], context: SearchContext) -> SearchState:
    """Return the state after applying denormal rules wherever they match and are proven.

    Returns the first state if no denormal rule can be applied.
    """
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
    """Return the state with its price set to the first state's time divided by the measured speed-up."""
    return replace(state, price=state.price._replace(time_ps=round(state.first.price.time_ps / gain.ratio)))
