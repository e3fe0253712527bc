"""Derivations: short ways from one term to another by steps of rules, searched from both ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from superopt.generate.derive.neighbours import Neighbours, RewriteEdge, StepCheck, normal, outputs, together
from superopt.ir.rule import Rule
from superopt.ir.term import Term

__all__ = ["DerivationStep", "Deriver"]

_MOST_TERMS = 20_000

Passes: TypeAlias = Callable[[tuple[Term, ...]], bool]
_Trail: TypeAlias = dict[Term, "tuple[Term, RewriteEdge] | None"]  # term -> the one it was reached from, and how


def _anything(terms: tuple[Term, ...]) -> bool:
    return True


@dataclass(frozen=True)
class DerivationStep:
    """`old`, an instance of one side of `rule`, became `new`, the same instance of the other, at some places where it
    stood; left to right where `forward`. `after` are the outputs of the whole graph after that, in normal form."""

    rule: Rule
    forward: bool
    old: tuple[Term, ...]
    new: tuple[Term, ...]
    after: tuple[Term, ...]


@dataclass(frozen=True)
class _Question:
    steps: int
    gone: frozenset[int]
    passes: Passes
    forward: bool


class _Side:
    """What was reached from one end: how, in how many steps, and last."""

    def __init__(self, start: Term) -> None:
        self.trail: _Trail = {start: None}
        self.depths = {start: 0}
        self.depth = 0
        self.layer = [start]
        self.refused: set[Term] = set()


class Deriver:
    """Derives equations of typed terms of known sizes from a set of rules.

    A step exchanges an instance of one side of a rule, anywhere in the graph, for the same instance of the other side;
    `admits` says whether it is right there. Operands of commutative operators may stand in any order. What is found
    about a term is kept for later questions, until `forget`.
    """

    def __init__(self, rules: Iterable[Rule], admits: StepCheck, most: int = _MOST_TERMS) -> None:
        self._neighbours = Neighbours(admits)
        self._numbers: dict[Rule, int] = {}
        self._removed: frozenset[int] = frozenset()
        self._sizes: dict[Term, int] = {}
        self.most = most  # terms that one search may visit
        self.cut = 0  # searches that came to that bound
        for rule in rules:
            self.add(rule)

    @property
    def tried(self) -> int:
        """Steps put to `admits` so far."""
        return self._neighbours.tried

    def add(self, rule: Rule) -> None:
        """From now on `rule` counts."""
        if rule not in self._numbers:
            self._numbers[rule] = self._neighbours.add(rule)
        self._removed -= {self._numbers[rule]}

    def remove(self, rule: Rule) -> None:
        """`rule` no longer counts. Raises KeyError for a rule that was never added."""
        self._removed |= {self._numbers[rule]}

    def forget(self) -> None:
        """Gives memory back."""
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
        """The steps of a derivation of `lhs = rhs`, at most `steps` of them, or None where none was found.

        No tuple of outputs between the two sides fails `passes`. Several outputs are derived one after the other, and
        where that fails, all at once: then a rule of several outputs is one step. `without` does not count this time.
        With `forward`, each step must be one that is found from the graph before it, as a search that starts at `lhs`
        finds it; else it may also be found from the graph after it (a product with 0 does not say of what).
        """
        asked = _Question(steps, self._gone(without), passes, forward)
        left, right = normal(tuple(lhs)), normal(tuple(rhs))
        if len(left) > 1:
            found = self._one_by_one(left, right, asked)
            if found is not None:
                return found
        return self._between(together(left), together(right), asked)

    def descend(self, term: Term, price: Callable[[Term], float], without: Rule | None = None) -> Term:
        """`term`, in normal form, after steps to cheaper terms, the cheapest first, until no step leads to one."""
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
        """Whether at most `steps` steps, each to a cheaper term, lead from `start` to `goal`, both in normal form."""
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
        self, left: tuple[Term, ...], right: tuple[Term, ...], asked: _Question
    ) -> tuple[DerivationStep, ...] | None:
        path: list[DerivationStep] = []
        for k in range(len(left)):

            def whole(term: Term, k: int = k) -> tuple[Term, ...]:
                return (*right[:k], term, *left[k + 1 :])

            def passes(terms: tuple[Term, ...], whole: Callable[[Term], tuple[Term, ...]] = whole) -> bool:
                return asked.passes(whole(terms[0]))

            part = replace(asked, steps=asked.steps - len(path), passes=passes)
            found = self._between(left[k], right[k], part)
            if found is None or (found and k < len(left) - 1 and not passes((right[k],))):
                return None
            path += [replace(step, after=whole(step.after[0])) for step in found]
        return tuple(path)

    def _between(self, left: Term, right: Term, asked: _Question) -> tuple[DerivationStep, ...] | None:
        """Layer by layer, the smaller one first, until a term is reached from both sides.

        Not every step can be found from both ends, so both sides go on to the full depth.
        """
        if left is right:
            return ()
        sides = (_Side(left), _Side(right))
        while True:
            open_sides = [k for k in (0, 1) if sides[k].layer and sides[k].depth < asked.steps]
            if not open_sides or (asked.forward and 0 not in open_sides):
                return None
            k = min(open_sides, key=lambda k: len(sides[k].layer))
            middle = self._layer(sides[k], sides[1 - k], asked, backward=bool(k))
            if middle is not None:
                return self._path((sides[0].trail, sides[1].trail), middle)
            if len(sides[0].trail) + len(sides[1].trail) > self.most:
                self.cut += 1
                return None

    def _layer(self, mine: _Side, theirs: _Side, asked: _Question, backward: bool) -> Term | None:
        """One step more from `mine`; gives a term back that `theirs` has reached as well."""
        reached: list[Term] = []
        mine.depth += 1
        for term in sorted(mine.layer, key=self._size):
            for edge, new in self._neighbours.of(term).items():
                if new in mine.trail or edge.number in asked.gone or not (edge.back if backward else edge.there):
                    continue
                meets = new in theirs.trail and mine.depth + theirs.depths[new] <= asked.steps
                if not meets and (mine.depth == asked.steps or new in mine.refused):
                    continue
                if not meets and not asked.passes(outputs(new)):
                    mine.refused.add(new)
                    continue
                if backward and asked.forward and not self._neighbours.leads(new, term, asked.gone):
                    continue
                mine.trail[new] = term, edge
                if meets:
                    return new
                mine.depths[new] = mine.depth
                reached.append(new)
            if len(mine.trail) + len(theirs.trail) > self.most:
                break
        mine.layer = reached
        return None

    def _size(self, term: Term) -> int:
        """Operators and leaves, as a tree: small terms are looked at first."""
        known = self._sizes.get(term)
        if known is None:
            known = self._sizes[term] = 1 + sum(self._size(i) for i in term.inputs if i is not None)
        return known

    def _path(self, trails: tuple[_Trail, _Trail], middle: Term) -> tuple[DerivationStep, ...]:
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
