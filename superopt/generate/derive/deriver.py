"""Searches for derivations: short sequences of rewriting steps from one term to another (bidirectional search)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from superopt.generate.derive.neighbours import (
    Neighbours,
    PossibleStep,
    RewriteEdge,
    StepCheck,
    normal,
    outputs,
    together,
)
from superopt.ir.rule import Rule
from superopt.ir.term import Term

__all__ = ["DerivationStep", "Deriver"]

_MAX_TERMS = 20_000  # largest number of terms that one search visits
_MAX_UNPROVABLE_PATHS = 50  # searches over unproven steps before every step is proven when the search comes to it

Passes: TypeAlias = Callable[[tuple[Term, ...]], bool]
_Trail: TypeAlias = dict[Term, "tuple[Term, RewriteEdge] | None"]  # term -> the term and step that it was reached from


def _anything(terms: tuple[Term, ...]) -> bool:
    return True


@dataclass(frozen=True)
class DerivationStep:
    """One step of a derivation: `old`, an instance of one side of `rule`, is replaced by `new`, the other side.

    The rule is applied from left to right if `forward`. All occurrences of `old` are replaced. `after` are the outputs
    of the whole graph after the step, in normal form.
    """

    rule: Rule
    forward: bool
    old: tuple[Term, ...]
    new: tuple[Term, ...]
    after: tuple[Term, ...]


@dataclass(frozen=True)
class _Query:
    steps: int
    gone: frozenset[int]
    passes: Passes
    forward: bool
    proven: bool  # False: steps that are not yet proven are taken as well

    def takes(self, edge: RewriteEdge, backward: bool) -> bool:
        """Return True if a search from the left (or from the right: `backward`) may take the step."""
        if not self.proven:
            return edge.is_possible(not backward)
        return edge.back if backward else edge.there


@dataclass(frozen=True)
class _Found:
    """Result of a search: the steps, and the edges and directions that they use. None and () if it found nothing."""

    steps: tuple[DerivationStep, ...] | None
    edges: tuple[tuple[RewriteEdge, bool], ...] = ()
    cut: bool = False


class _Frontier:
    """The terms reached from one end, with their predecessors and depths, and the last layer."""

    def __init__(self, start: Term) -> None:
        self.trail: _Trail = {start: None}
        self.depths = {start: 0}
        self.depth = 0
        self.layer = [start]
        self.refused: set[Term] = set()


class Deriver:
    """Derives equations of typed terms of known sizes from a set of rules.

    A step replaces an instance of one side of a rule, anywhere in the graph, by the same instance of the other side, if
    `is_valid` accepts it. Operands of commutative operators may be in any order. Steps are cached for later searches,
    until `forget`. If `is_possible` is given, steps that it accepts are checked only once they are on a path.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        is_valid: StepCheck,
        most: int = _MAX_TERMS,
        is_possible: PossibleStep | None = None,
    ) -> None:
        self._neighbours = Neighbours(is_valid, is_possible)
        self._is_lazy = is_possible is not None
        self._numbers: dict[Rule, int] = {}
        self._removed: frozenset[int] = frozenset()
        self._sizes: dict[Term, int] = {}
        self.most = most  # bound on the terms that one search visits
        self.cut = 0  # searches that reached that bound
        for rule in rules:
            self.add(rule)

    @property
    def tried(self) -> int:
        """Number of steps whose validity was checked so far."""
        return self._neighbours.tried

    def add(self, rule: Rule) -> None:
        """Add a rule."""
        if rule not in self._numbers:
            self._numbers[rule] = self._neighbours.add(rule)
        self._removed -= {self._numbers[rule]}

    def remove(self, rule: Rule) -> None:
        """Remove a rule. Raises KeyError for a rule that was never added."""
        self._removed |= {self._numbers[rule]}

    def forget(self) -> None:
        """Free memory."""
        self._neighbours.forget()
        self._sizes.clear()

    def derive(
        self,
        lhs: Sequence[Term],
        rhs: Sequence[Term],
        steps: int = 4,
        *,
        without: Rule | None = None,
        passes: Passes = _anything,
        forward: bool = False,
    ) -> tuple[DerivationStep, ...] | None:
        """Return the steps of a derivation of `lhs = rhs`, at most `steps` of them, or None if none was found.

        All tuples of outputs between the two sides satisfy `passes`. Several outputs are first derived one after the
        other. If that fails, they are derived as one graph, in which a rule with several outputs is one step. The rule
        `without` is not used. With `forward`, each step must be found from the graph before it, as in a search that
        starts at `lhs`. Otherwise it may also be found from the graph after it: x * 0 = 0 cannot be found from 0, which
        does not contain x.
        """
        query = _Query(steps, self._gone(without), passes, forward, proven=forward or not self._is_lazy)
        left, right = normal(tuple(lhs)), normal(tuple(rhs))
        if len(left) > 1:
            found = self._one_by_one(left, right, query)
            if found is not None:
                return found
        return self._between(together(left), together(right), query)

    def descend(self, term: Term, price: Callable[[Term], float], without: Rule | None = None) -> Term:
        """Return the end of a greedy descent from `term`: take the step to the cheapest term while it is cheaper.

        `term` must be in normal form.
        """
        gone, here = self._gone(without), price(term)
        while True:
            near = [(price(new), new) for new in self._near(term, gone)]
            least = min((priced for priced, _ in near), default=here)
            if least >= here:
                return term
            here, term = least, min(new for priced, new in near if priced == least)

    def falls(
        self, start: Term, goal: Term, price: Callable[[Term], float], steps: int, without: Rule | None = None
    ) -> bool:
        """Return True if at most `steps` steps, each to a cheaper term, lead from `start` to `goal`.

        Both must be in normal form.
        """
        gone, least = self._gone(without), price(goal)
        layer, seen = [start], {start}
        for _ in range(steps):
            reached: list[Term] = []
            for term in layer:
                for new in self._near(term, gone):
                    if new is goal and least < price(term):
                        return True
                    if new not in seen and least < price(new) < price(term):
                        seen.add(new)
                        reached.append(new)
            layer = reached
        return False

    def _gone(self, without: Rule | None) -> frozenset[int]:
        return self._removed if without is None else self._removed | {self._numbers[without]}

    def _near(self, term: Term, gone: frozenset[int]) -> list[Term]:
        steps = self._neighbours.of(term).items()
        return list(dict.fromkeys(new for edge, new in steps if edge.there and edge.number not in gone))

    def _one_by_one(
        self, left: tuple[Term, ...], right: tuple[Term, ...], query: _Query
    ) -> tuple[DerivationStep, ...] | None:
        path: list[DerivationStep] = []
        for k in range(len(left)):

            def whole(term: Term, k: int = k) -> tuple[Term, ...]:
                return (*right[:k], term, *left[k + 1 :])

            def passes(terms: tuple[Term, ...], whole: Callable[[Term], tuple[Term, ...]] = whole) -> bool:
                return query.passes(whole(terms[0]))

            part = replace(query, steps=query.steps - len(path), passes=passes)
            found = self._between(left[k], right[k], part)
            if found is None and k and not query.proven:
                # Unproven steps may have led to a longer path for an output before, and left too few steps for this.
                return self._one_by_one(left, right, replace(query, proven=True))
            if found is None or (found and k < len(left) - 1 and not passes((right[k],))):
                return None
            path += [replace(step, after=whole(step.after[0])) for step in found]
        return tuple(path)

    def _between(self, left: Term, right: Term, query: _Query) -> tuple[DerivationStep, ...] | None:
        """Return the steps of a derivation, each of them valid.

        Most steps that a search comes to are on no path, and their proofs take most of the time. So a lazy search
        takes unproven steps as well, and proves those of the path that it finds. If a proof fails, it searches again
        without that step. A lazy search that is not cut visits every term that the proven steps reach, so without a
        path there is no derivation. If it is cut, unproven steps may have taken the room of proven ones: the search
        over proven steps decides.
        """
        if not query.proven:
            for _ in range(_MAX_UNPROVABLE_PATHS):
                found = self._search(left, right, query)
                if found.cut and found.steps is None:
                    break
                if all(edge.there if there else edge.back for edge, there in found.edges):  # each is proven here
                    self.cut += found.cut
                    return found.steps
        found = self._search(left, right, replace(query, proven=True))
        self.cut += found.cut
        return found.steps

    def _search(self, left: Term, right: Term, query: _Query) -> _Found:
        """Search layer by layer, the smaller frontier first, until a term is reached from both sides.

        Some steps can only be found from one end, so both frontiers continue to the full depth.
        """
        if left is right:
            return _Found(())
        sides = (_Frontier(left), _Frontier(right))
        trails = (sides[0].trail, sides[1].trail)
        while True:
            open_sides = [k for k in (0, 1) if sides[k].layer and sides[k].depth < query.steps]
            if not open_sides or (query.forward and 0 not in open_sides):
                return _Found(None)
            k = min(open_sides, key=lambda k: len(sides[k].layer))
            middle = self._layer(sides[k], sides[1 - k], query, backward=bool(k))
            if middle is not None:
                return self._met(trails, middle)
            if len(sides[0].trail) + len(sides[1].trail) > self.most:
                middle = None if query.forward else self._last_step(sides, query)
                return _Found(None, cut=True) if middle is None else self._met(trails, middle, cut=True)

    def _last_step(self, sides: tuple[_Frontier, _Frontier], query: _Query) -> Term | None:
        """Look for one more step between the frontiers: its terms are too many to keep, but not to compare."""
        for k in (0, 1):
            if sides[k].depth < query.steps:
                middle = self._layer(sides[k], sides[1 - k], query, backward=bool(k), is_last=True)
                if middle is not None:
                    return middle
        return None

    def _layer(
        self, mine: _Frontier, theirs: _Frontier, query: _Query, backward: bool, is_last: bool = False
    ) -> Term | None:
        """Extend the frontier `mine` by one step; return a term that `theirs` has reached as well, or None.

        Terms of the last layer are not kept, nor made unless `theirs` has them.
        """
        reached: list[Term] = []
        mine.depth += 1
        is_last = is_last or mine.depth == query.steps
        targets = frozenset(term for term, depth in theirs.depths.items() if mine.depth + depth <= query.steps)
        ordered = sorted(mine.layer, key=self._size)
        for number, term in enumerate(ordered, 1):
            near = self._neighbours.toward(term, targets) if is_last else self._neighbours.of(term).items()
            for edge, new in near:
                if new in mine.trail or edge.number in query.gone:
                    continue
                meets = new in targets
                if not meets and (is_last or new in mine.refused):
                    continue
                if not query.takes(edge, backward):
                    continue
                if not meets and not query.passes(outputs(new)):
                    mine.refused.add(new)
                    continue
                if backward and query.forward and not self._neighbours.leads(new, term, query.gone):
                    continue
                mine.trail[new] = term, edge
                if meets:
                    return new
                mine.depths[new] = mine.depth
                reached.append(new)
            if not is_last and len(mine.trail) + len(theirs.trail) > self.most:
                reached += ordered[number:]
                break
        mine.layer = reached
        return None

    def _size(self, term: Term) -> int:
        """Return the number of operators and leaves of the term as a tree; small terms are expanded first."""
        known = self._sizes.get(term)
        if known is None:
            known = self._sizes[term] = 1 + sum(self._size(i) for i in term.inputs if i is not None)
        return known

    def _met(self, trails: tuple[_Trail, _Trail], middle: Term, cut: bool = False) -> _Found:
        return _Found(self._path(trails, middle), _edges(trails, middle), cut)

    def _path(self, trails: tuple[_Trail, _Trail], middle: Term) -> tuple[DerivationStep, ...]:
        """Return the steps from both ends to the term where they met."""
        first = [self._step(e, e.forward, e.place, e.new, reached) for _, e, reached in _walk(trails[0], middle)]
        last = [self._step(e, not e.forward, e.new, e.place, before) for before, e, _ in _walk(trails[1], middle)]
        return (*reversed(first), *last)

    def _step(self, edge: RewriteEdge, forward: bool, old: Term, new: Term, after: Term) -> DerivationStep:
        return DerivationStep(self._neighbours.rules[edge.number], forward, outputs(old), outputs(new), outputs(after))


def _edges(trails: tuple[_Trail, _Trail], middle: Term) -> tuple[tuple[RewriteEdge, bool], ...]:
    """Return the edges from both ends to the term where they met, each with True if it was taken from its place."""
    return tuple((edge, not k) for k, trail in enumerate(trails) for _, edge, _ in _walk(trail, middle))


def _walk(trail: _Trail, term: Term) -> Iterator[tuple[Term, RewriteEdge, Term]]:
    """Yield the steps from `term` back to the end that the trail comes from: term before, edge, and term reached."""
    while (step := trail[term]) is not None:
        before, edge = step
        yield before, edge, term
        term = before
