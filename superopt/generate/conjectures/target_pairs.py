"""Makes equations between the targets of a family (windows of models) and equal graphs that may be faster.

Fingerprints and the prover decide if an equation holds; this module only decides if it is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from superopt.generate.conjectures.equal_pairs import Builder
from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.conjectures.operation_counts import live_terms, scalar_operations
from superopt.generate.enumeration.enumerator import Enumeration
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.ir.infer import IllTyped, make
from superopt.ir.term import Term, topological
from superopt.properties import changes_shape_only

__all__ = ["target_conjectures"]

_MOST = 8  # right sides of one target, those with the fewest scalar operations first
_MORE = 3  # operators that a right side with fewer scalar operations, or with other operators, may have in addition

_Sides: TypeAlias = tuple[tuple[Term, ...], tuple[Term, ...]]


@dataclass(frozen=True)
class _Price:
    """Counts that decide if a graph may be faster on some device. Views cost nothing, and products cost most."""

    scalar_operations: tuple[float, float]
    operators: int
    kinds: frozenset[str]

    def may_beat(self, target: _Price) -> bool:
        """Return True for less arithmetic, or for no more products by as few operators or without some operator of the
        target's; up to `_MORE` operators in addition."""
        if self.operators > target.operators + _MORE or self.scalar_operations[0] > target.scalar_operations[0]:
            return False
        less = self.scalar_operations < target.scalar_operations
        return less or self.operators <= target.operators or not target.kinds <= self.kinds


def target_conjectures(state: Enumeration, evaluator: Evaluator) -> list[GroundEquation]:
    """Return the equations from a target to a graph that may be faster, those with the fewest operations first."""
    family, build = state.classes.family, Builder(state.classes)
    found: dict[int, list[Term]] = {}
    for use, children, same in zip(state.rows.use.tolist(), state.rows.children, state.same.tolist(), strict=True):
        graph, target = build.graph(use, children), build.of(same)
        if graph is not target:
            found.setdefault(state.targets[same], []).append(graph)
    whole = {number: build.of(owner) for owner, number in state.targets.items()}
    if family.phases:
        assembled = _assembled(family.phases, whole, found, evaluator) if 0 in whole else None
        return [] if assembled is None else [GroundEquation((whole[0],), (assembled,), family)]
    weights = frozenset(v.name for v in family.variables if v.weight)
    equations = []
    for number, graphs in sorted(found.items()):
        target = whole[number]
        single = [((target,), (graph,)) for graph in graphs]
        sides: list[_Sides] = list(_joint(whole, number, graphs)) if len(whole) > 1 else [*single]
        limit = {lhs: _price(lhs, weights) for lhs, _ in sides}
        priced = [(_price(rhs, weights), lhs, rhs) for lhs, rhs in sides]
        kept = [entry for entry in priced if entry[0].may_beat(limit[entry[1]]) and not _contains(*entry[1:])]
        kept.sort(key=lambda entry: (entry[0].scalar_operations, entry[0].operators))  # stable
        several = {_ingredients(rhs): GroundEquation(lhs, rhs, family) for _, lhs, rhs in reversed(kept)}
        equations += list(reversed(several.values()))[:_MOST]
    return equations


def _joint(whole: Mapping[int, Term], number: int, graphs: list[Term]) -> Iterator[_Sides]:
    """Yield equations of two outputs in which one target is computed from the other one."""
    for graph in graphs:
        below = set(topological((graph,)))
        for other, known in whole.items():
            if other != number and known in below and whole[number] not in below:
                yield (known, whole[number]), (known, graph)


def _contains(lhs: tuple[Term, ...], rhs: tuple[Term, ...]) -> bool:
    """Return True if the target is a proper part of the graph that should replace it."""
    return lhs[-1] in set(topological(filter(None, rhs[-1].inputs)))


def _ingredients(terms: tuple[Term, ...]) -> tuple[str, ...]:
    """Return the operators with their attributes. Of graphs that differ only in their order, one is enough."""
    return tuple(sorted(f"{term.op}{term.attrs}" for term in topological(terms) if term.op != "Out"))


def _price(terms: tuple[Term, ...], weights: frozenset[str]) -> _Price:
    live = live_terms(terms, weights)
    operators = [t.op for t in live if t.op not in ("Var", "Out") and not changes_shape_only(t.op)]
    return _Price(scalar_operations(live), len(operators), frozenset(operators))


def _assembled(
    block: int, whole: Mapping[int, Term], found: Mapping[int, list[Term]], evaluator: Evaluator
) -> Term | None:
    """Return the graph that computes the phases of target 0 apart and interleaves them, or None.

    Each phase needs a graph. Of its graphs, the smallest is taken.
    """
    numbers = range(1, 1 + block * block)
    if any(not found.get(number) for number in numbers):
        return None
    first = [
        min(found[number], key=lambda g: (sum(1 for _ in topological((g,))), _ingredients((g,)))) for number in numbers
    ]
    try:
        graph = make("Concat", first, {"axis": -3})
        graph = make("DepthToSpace", (graph,), {"blocksize": block, "mode": "DCR"})
    except IllTyped:
        return None
    same = graph.type == whole[0].type and evaluator.key(graph) == evaluator.key(whole[0])
    return graph if same else None
