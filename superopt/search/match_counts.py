"""Counts the places of a graph where each rule could be applied, whether or not the rewrite lowers the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from superopt.ir.term import Term
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.match.rule_index import RuleIndex
from superopt.search.match.signature_check import Check, CheckCache
from superopt.search.region import canonical

__all__ = ["count_matches"]


def count_matches(outputs: Sequence[Term], rules: RuleIndex, check: Check) -> Counter[str]:
    """Return the number of places where each rule matches in either direction, by the rule's id.

    A place is a set of operators that one side covers and for which `check` finds a signature. Other orders of operands
    and the other direction of the rule at the same operators count as the same place. As in the search, weights are
    leaves, and a match does not count if the replacement has another type or only adds operators.
    """
    allowed = CheckCache(check)
    # The whole graph, and not regions as in the search: the places that lie across a cut change from pass to pass.
    graph = canonical(outputs) or tuple(outputs)
    found: dict[str, set[frozenset[Term]]] = {}
    for match in Matcher(rules).matches(GraphIndex(graph)):
        known = found.setdefault(match.compiled.rule_id, set())
        if match.covered not in known and allowed(match.compiled.listed, match.bindings) is not None:
            known.add(match.covered)
    return Counter({rule: len(places) for rule, places in found.items() if places})
