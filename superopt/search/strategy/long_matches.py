"""Long left sides all over the model: makes a region of each match, wherever the model would be cut.

A decoder computes the cosines and sines of its positions once, and every layer rotates its queries and keys by them.
In a region that is cut out of one layer they are leaves, so a rule that has to see how they are computed does not match
there. Nor does a rule whose match is longer than the pieces between two cuts.

Values of a match that other operators read as well are *shared*: they stay in the model as long as these do, and the
regions of several layers may have the operators that compute them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from superopt.ir.rule import Rule
from superopt.ir.term import Term, node_of, topological
from superopt.search.match.compiled_rule import CompiledRule
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.match.occurrence import Match
from superopt.search.match.rule_index import RuleIndex
from superopt.search.region import Region, extract_region

__all__ = ["LongMatch", "LongMatches"]

_MIN_OPERATORS = 6  # on the left side: shorter ones match often, and seldom across a cut in each of several passes
_MAX_SIDES = 1 << 15  # whose length is kept for later searches; the shipped rules have 9,700


class LongMatch(NamedTuple):
    """The region of a match, and the terms of its graph that stand for shared values."""

    region: Region
    shared: tuple[Term, ...]


class LongMatches:
    """Finds the matches of those among `rules` that have a long left side (see `RuleIndex` for `available`)."""

    def __init__(self, rules: Iterable[Rule], available: Callable[[Term], bool]) -> None:
        long = [rule for rule in rules if any(map(_is_long, (rule.lhs, rule.rhs)))]
        self._matcher = Matcher(RuleIndex(long, available))

    def of(self, outputs: Sequence[Term]) -> list[LongMatch]:
        """Return the matches with one root. They may overlap."""
        index = GraphIndex(outputs)
        matches = self._matcher.matches(index, wanted=_is_wanted)
        found = [_long_match(match, index) for match in matches if len(match.roots) == 1]
        self._matcher.clear()
        return [match for match in found if match is not None]


@lru_cache(maxsize=_MAX_SIDES)
def _is_long(side: tuple[Term, ...]) -> bool:
    return sum(bool(term.inputs) and term.op != "Out" for term in topological(side)) >= _MIN_OPERATORS


def _is_wanted(compiled: CompiledRule) -> bool:
    return _is_long(compiled.rule.lhs) and not compiled.introduces_kernel


def _long_match(match: Match, index: GraphIndex) -> LongMatch | None:
    nodes = {node_of(term) for term in match.covered}
    values = sorted(match.covered.difference(match.roots), key=index.position.__getitem__)
    shared = [term for term in values if _is_read_outside(term, nodes, index)]
    piece = sorted(nodes, key=index.position.__getitem__)
    found = extract_region(piece, (*match.roots, *shared))
    if found is None:
        return None
    kept = {node_of(term) for term in topological(shared)}
    own = tuple(term for term in piece if term not in kept)
    region = dataclasses.replace(found, outputs=found.outputs[:1], originals=found.originals[:1], operators=own)
    return LongMatch(region, found.outputs[1:])


def _is_read_outside(term: Term, inside: set[Term], index: GraphIndex) -> bool:
    """Return True if an output of the model or an operator that is not `inside` reads the value."""
    users = (node_of(user) for user in index.users.get(term, ()) if user.op != "Out")
    return term in index.outputs or not inside.issuperset(users)
