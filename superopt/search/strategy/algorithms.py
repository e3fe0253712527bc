"""Applies algorithms for an operator, such as Winograd convolution: rules that bring numbers of their own.

Whether fewer multiplications are faster is a matter of a runtime's kernels, some of which use such algorithms
themselves. No cost model tells, so the search does not use these rules. At its end, each operator is replaced by the
algorithm with the largest measured gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.search.match.graph_index import run_time_terms
from superopt.search.strategy.expander import Expander
from superopt.search.strategy.search_context import SearchContext
from superopt.search.strategy.state import SearchState

__all__ = ["AlgorithmGain", "apply_algorithms", "may_apply_algorithms"]

# Returns how many times as fast a rule makes an operator with such operands; 0 if that is not known.
AlgorithmGain: TypeAlias = Callable[[Rule, Bindings], float]

# The least gain of an operator alone. In a model, its neighbours share the runtime's own layout of images with it, and
# find their values in the cache: an algorithm of several operators loses more by that.
_LEAST_GAIN = 1.1


def may_apply_algorithms(outputs: Sequence[Term], context: SearchContext) -> bool:
    """Quick test: return False if the operators show that no algorithm matches in the graph."""
    candidates = context.matcher.rules.candidates
    return any(compiled.is_algorithm for term in run_time_terms(outputs) for compiled in candidates(term))


def apply_algorithms(outputs: Sequence[Term], context: SearchContext, gain: AlgorithmGain) -> SearchState:
    """Return the state with an algorithm for each operator that one makes faster; the first state if there is none."""
    expander = Expander(outputs, context)
    state, before = expander.start, None
    while state is not before:
        before = state
        matches = list(context.matcher.matches(expander.index(state), wanted=lambda compiled: compiled.is_algorithm))
        gains = [(gain(found.compiled.rule, found.bindings), found) for found in matches]
        for times, found in sorted(gains, key=lambda one: -one[0]):
            context.report[found.compiled.rule_id].matched += 1
            child = expander.apply(state, found) if times >= _LEAST_GAIN else None
            if child is not None:
                state = child
                break
    return state
