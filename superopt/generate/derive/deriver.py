"""Searches for derivations: short sequences of rewriting steps from one term to another (bidirectional search)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from superopt.generate.derive.neighbours import Neighbours, RewriteEdge, StepCheck, normal, outputs, together
from superopt.ir.rule import Rule
from superopt.ir.term import Term

__all__ = ["DerivationStep", "Deriver"]

_MAX_TERMS = 20_000  # largest number of terms that one search visits

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
    until `forget`.
    """

    def __init__(self, rules: Iterable[Rule], is_valid: StepCheck, most: int = _MAX_TERMS) -> None:
        self._neighbours = Neighbours(is_valid)
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
        query = _Query(steps, self._gone(without), passes, forward)
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
            if found is None or (found and k < len(left) - 1 and not passes((right[k],))):
                return None
            path += [replace(step, after=whole(step.after[0])) for step in found]
        return tuple(path)

    def _between(self, left: Term, right: Term, query: _Query) -> tuple[DerivationStep, ...] | None:
        """Search layer by layer, the smaller frontier first, until a term is reached from both sides.

        Some steps can only be found from one end, so both frontiers continue to the full depth.
        """
        if left is right:
            return ()
        sides = (_Frontier(left), _Frontier(right))
        while True:
            open_sides = [k for k in (0, 1) if sides[k].layer and sides[k].depth < query.steps]
            if not open_sides or (query.forward and 0 not in open_sides):
                return None
            k = min(open_sides, key=lambda k: len(sides[k].layer))
            middle = self._layer(sides[k], sides[1 - k], query, backward=bool(k))
            if middle is not None:
                return self._path((sides[0].trail, sides[1].trail), middle)
            if len(sides[0].trail) + len(sides[1].trail) > self.most:
                self.cut += 1
                return None if query.forward else self._last_step(sides, query)

    def _last_step(self, sides: tuple[_Frontier, _Frontier], query: _Query) -> tuple[DerivationStep, ...] | None:
        """Look for one more step between the frontiers: its terms are too many to keep, but not to compare."""
        for k in (0, 1):
            if sides[k].depth < query.steps:
                middle = self._layer(sides[k], sides[1 - k], query, backward=bool(k), is_last=True)
                if middle is not None:
                    return self._path((sides[0].trail, sides[1].trail), middle)
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
                if not (edge.back if backward else edge.there):
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

    def _path(self, trails: tuple[_Trail, _Trail], middle: Term) -> tuple[DerivationStep, ...]:
        """Return the steps from both ends to the term where they met."""
        path: list[DerivationStep] = []
        at = trails[0][middle]
        term = middle
        while at is not None:
            before, edge = at
            path.append(self._step(edge, edge.forward, edge.place, edge.new, term))
            term, at = before, trails[0][before]
        path.reverse()
        at = trails[1][middle]
        while at is not None:
            after, edge = at
            path.append(self._step(edge, not edge.forward, edge.new, edge.place, after))
            at = trails[1][after]
        return tuple(path)

    def _step(self, edge: RewriteEdge, forward: bool, old: Term, new: Term, after: Term) -> DerivationStep:
        return DerivationStep(self._neighbours.rules[edge.number], forward, outputs(old), outputs(new), outputs(after))
