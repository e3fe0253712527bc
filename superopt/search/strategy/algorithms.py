"""Applies algorithms for an operator, such as Winograd convolution: rules that bring numbers of their own.

Whether fewer multiplications are faster is a matter of a runtime's kernels, some of which use such algorithms
themselves. No cost model tells, so the search does not use these rules. At its end they are timed, those first that a
cost model expects to save most, and each operator is replaced by the one with the largest gain.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Protocol

from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.search.match.occurrence import Match
from superopt.search.strategy.expander import Expander
from superopt.search.strategy.search_context import SearchContext
from superopt.search.strategy.state import SearchState

__all__ = ["AlgorithmGains", "apply_algorithms", "may_apply_algorithms", "measure_algorithms"]

# The least gain of an operator alone. In a model, its neighbours share the runtime's own layout of images with it, and
# find their values in the cache: an algorithm of several operators loses more by that.
_LEAST_GAIN = 1.1


class AlgorithmGains(Protocol):
    """The times that rules save at operators, by the types of the operands."""

    def expected_ps(self, rule: Rule, bindings: Bindings) -> int:
        """Return the picoseconds that a cost model expects a rule to save."""

    def measured(self, rule: Rule, bindings: Bindings) -> float:
        """Return how many times as fast a rule makes the operator; 0 if that is not known."""


def may_apply_algorithms(outputs: Sequence[Term], context: SearchContext) -> bool:
    """Quick test: return False if the operators show that no algorithm matches in the graph."""
    return context.may_match(outputs, lambda compiled: compiled.is_algorithm)


def measure_algorithms(graphs: Mapping[tuple[Term, ...], int], context: SearchContext, gains: AlgorithmGains) -> None:
    """Measure what algorithms bring in `graphs`, by how often each occurs: those first that may save most in all.

    Of each operator the one that may save most comes first, then the second of each, as the time may not be enough.
    """
    starts = [(outputs, times, Expander(outputs, context)) for outputs, times in graphs.items()]
    expected = [
        (times * gains.expected_ps(found.compiled.rule, found.bindings), outputs, found)
        for outputs, times, expander in starts
        for found in _matches(expander, expander.start, context)
    ]
    of_operators: dict[object, list[Match]] = {}
    for saved, outputs, found in sorted(expected, key=lambda one: -one[0]):
        if saved > 0 and _is_allowed(found, context):
            of_operators.setdefault((outputs, found.roots), []).append(found)
    for found_in_turn in itertools.zip_longest(*of_operators.values()):
        for found in filter(None, found_in_turn):
            gains.measured(found.compiled.rule, found.bindings)


def apply_algorithms(outputs: Sequence[Term], context: SearchContext, gains: AlgorithmGains) -> SearchState:
    """Return the state with an algorithm for each operator that one makes faster; the first state if there is none."""
    expander = Expander(outputs, context)
    state, before = expander.start, None
    while state is not before:
        before = state
        matches = _matches(expander, state, context)
        known = [
            (gains.measured(found.compiled.rule, found.bindings), found)
            for found in matches
            if gains.expected_ps(found.compiled.rule, found.bindings) > 0 and _is_allowed(found, context)
        ]
        for times, found in sorted(known, key=lambda one: -one[0]):
            context.report[found.compiled.rule_id].matched += 1
            child = expander.apply(state, found) if times >= _LEAST_GAIN else None
            if child is not None:
                state = child
                break
    return state


def _is_allowed(found: Match, context: SearchContext) -> bool:
    """Return True if the rule is proven there, and of an accepted class."""
    return context.check(found.compiled.listed, found.bindings) is not None


def _matches(expander: Expander, state: SearchState, context: SearchContext) -> list[Match]:
    matches = context.matcher.matches
    return list(matches(expander.index(state), wanted=lambda compiled: compiled.is_algorithm))
