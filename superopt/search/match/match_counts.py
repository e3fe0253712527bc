"""Where rules match in a graph: whether anything could be done there, not whether it pays."""

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
    """At how many sites of the graph each rule matches in either direction, by the rule's id.

    A site is a set of operators that one side stands at, where `check` finds a signature: other orders of their
    operands and the other direction make no other site of the same operators. As in the search, weights are leaves,
    and a side whose place the other one cannot take (it has another type, or only adds work) does not match.
    """
    allowed = CheckCache(check)
    # Not in regions, as the search sees it: which sites lie across a cut changes from pass to pass.
    graph = canonical(outputs) or tuple(outputs)
    found: dict[str, set[frozenset[Term]]] = {}
    for match in Matcher(rules).matches(GraphIndex(graph)):
        known = found.setdefault(match.compiled.rule_id, set())
        if match.covered not in known and allowed(match.compiled.rule, match.bindings) is not None:
            known.add(match.covered)
    return Counter({rule: len(sites) for rule, sites in found.items() if sites})
