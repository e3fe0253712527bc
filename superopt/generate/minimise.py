"""Leaving out what smaller rules already give.

An equation is derivable when two steps with kept rules lead from one side to the other and the term between has no
more multiply-adds than the dearer side and at most one light operator more: a search finds it without this rule.
Direct rules whose derivation leads uphill (a 1x1 kernel enlarged before it is merged) stay.

Steps are taken on the ground terms of the equation; that a step is right there is checked by its fingerprint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from superopt.generate.candidates import Equation, occurrences
from superopt.generate.fingerprints import Evaluator
from superopt.ir.ops import OPS, IllTyped, replace
from superopt.ir.pattern import instantiate, match
from superopt.ir.rule import Rule
from superopt.ir.term import Term, map_terms, topological

__all__ = ["Cost", "Minimiser", "cost", "is_usable", "is_weak", "normal"]

_NEUTRAL = 4  # most operators at inference, on both sides together, of a law that gains nothing by itself
_LAUNCH = 8.0  # cost of running any operator at all, in multiply-adds of these small tensors


@dataclass(frozen=True)
class Cost:
    """What a graph costs at inference: multiply-adds of MatMul, Gemm and Conv, and everything else."""

    work: float
    other: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.work + self.other

    def within(self, most: Cost) -> bool:
        """Whether a search that stops at `most` may pass here: no more multiply-adds, one light operator more."""
        return self.work <= most.work and self.other <= most.other + 2 * _LAUNCH


def cost(terms: Iterable[Term], weights: frozenset[str]) -> Cost:
    """Cost at these small sizes, with a constant for each operator; `weights` names variables that are constant."""
    live: set[Term] = set()
    work = other = 0.0
    for term in topological(terms):
        if term.op == "Var":
            if term.attr("name") not in weights:
                live.add(term)
        elif any(i in live for i in term.inputs):
            live.add(term)
            if term.op != "Out":
                written = sum(_elements(t.shape) for t in term.types if t is not None)
                other += _LAUNCH + written
                work += written * _work(term)
    return Cost(work, other)


def _elements(shape: tuple[object, ...] | None) -> int:
    return math.prod(size for size in shape or () if isinstance(size, int))


def _work(term: Term) -> float:
    """Multiply-adds for each element of the output."""
    if term.op not in ("Conv", "MatMul", "Gemm") or term.inputs[0] is None or term.inputs[1] is None:
        return 0.0
    first, second = term.inputs[0].type, term.inputs[1].type
    assert first is not None and first.shape is not None and second is not None and second.shape is not None
    if term.op == "Conv":
        return _elements(second.shape[1:])
    return _elements(first.shape[:1] if term.op == "Gemm" and term.attr("transA") else first.shape[-1:])


def normal(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """`terms` with operands of commutative operators in one fixed order."""

    def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        if old.op in OPS and OPS[old.op].commutative and len(inputs) == 2:
            first, second = inputs
            if first is not None and second is not None and second < first:
                inputs = (second, first)
        return old if inputs == old.inputs else Term.of(old.op, inputs, dict(old.attrs), old.types)

    return map_terms(terms, build)


def is_weak(equation: Equation) -> bool:
    """Whether both sides cost the same and the equation is large, or has a variable twice on one side.

    Laws that gain nothing by themselves are worth their price in search only if they are general and small.
    """
    weights = frozenset(v.name for v in equation.family.variables if v.weight)
    if cost(equation.lhs, weights).total != cost(equation.rhs, weights).total:
        return False
    repeated = any(len(leaves) > len(set(leaves)) for leaves in map(occurrences, (equation.lhs, equation.rhs)))
    return repeated or equation.size[0] > _NEUTRAL


def is_usable(rule: Rule, weights: frozenset[str]) -> bool:
    """Whether a direction can be applied whose left side has at most one operator on weights alone: models are
    written with at most that (they hold folded weights)."""
    for side in (rule, rule.reversed()):
        if side.applicable:
            leaves = [t for t in topological(side.lhs) if not t.inputs and (t.op != "Var" or t.attr("name") in weights)]
            fixed: set[Term] = set(leaves)
            folded = 0
            for term in topological(side.lhs):
                if term.inputs and all(i in fixed for i in term.inputs):
                    fixed.add(term)
                    folded += term.op != "Out"
            if folded <= 1:
                return True
    return False


class Minimiser:
    """The rules kept so far, indexed by the operator at the root of their left sides."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self._single: dict[str, list[tuple[Rule, Rule]]] = {}  # operator -> (kept rule, a variant of it to apply)
        self._multiple: list[tuple[Rule, Rule]] = []
        self._near: dict[Term, tuple[dict[str, int], dict[Term, set[Rule]]]] = {}
        self._keys: dict[Term, tuple[tuple[int, ...], int]] = {}
        self._removed: set[Rule] = set()
        self.steps = 0

    def add(self, rule: Rule) -> None:
        """From now on equations that `rule` gives are derivable."""
        for direction in (rule, rule.reversed()):
            if direction.applicable:
                for variant in direction.commuted():
                    if len(variant.lhs) == 1:
                        self._single.setdefault(variant.lhs[0].op, []).append((rule, variant))
                    else:
                        self._multiple.append((rule, variant))

    def remove(self, rule: Rule) -> None:
        """`rule` no longer counts."""
        self._removed.add(rule)

    def derivable(self, equation: Equation, without: Rule | None = None) -> bool:
        """Whether kept rules (all but `without`) lead from one side to the other in at most two steps, never uphill."""
        left, right = normal(equation.lhs), normal(equation.rhs)
        if left == right:
            return True
        if len(left) > 1:
            return self._derivable_together(left, right, without)
        weights = frozenset(v.name for v in equation.family.variables if v.weight)
        one, other = cost(left, weights), cost(right, weights)
        most = Cost(max(one.work, other.work), max(one.other, other.other))
        from_left, from_right = self._neighbours(left[0], without), self._neighbours(right[0], without)
        if right[0] in from_left or left[0] in from_right:
            return True
        if self._reduced(left[0], weights, without) is self._reduced(right[0], weights, without):
            return True
        return any(cost((between,), weights).within(most) for between in from_left if between in from_right)

    def _reduced(self, term: Term, weights: frozenset[str], without: Rule | None) -> Term:
        """The term after steps downhill, the steepest first, until there is none."""
        here = cost((term,), weights).total
        while True:
            near = [(cost((n,), weights).total, n.digest, n) for n in self._neighbours(term, without)]
            if not near or min(near)[0] >= here:
                return term
            here, _, term = min(near)

    def _derivable_together(self, left: tuple[Term, ...], right: tuple[Term, ...], without: Rule | None) -> bool:
        """For several outputs: one step on all of them, before or after one step on a part."""
        for first, second in ((left, right), (right, left)):
            for rule, variant in self._multiple:
                if rule is without or rule in self._removed:
                    continue
                bindings = match(variant.lhs, first)
                if bindings is None:
                    continue
                try:
                    reached = normal(instantiate(variant.rhs, bindings, "float"))
                except IllTyped:
                    continue
                if reached == second or any(self._reaches(a, b, without) for a, b in zip(reached, second, strict=True)):
                    return True
        return False

    def _reaches(self, start: Term, goal: Term, without: Rule | None) -> bool:
        return start is goal or goal in self._neighbours(start, without)

    def _neighbours(self, term: Term, without: Rule | None) -> set[Term]:
        """Terms one step away (in normal form)."""
        done, found = self._near.setdefault(term, ({}, {}))
        for place in topological((term,)):
            known = self._single.get(place.op, [])
            start = done.get(place.op, 0)
            for rule, variant in known[start:]:
                for new in self._step(place, variant):
                    (whole,) = normal(replace((term,), {place: new}))
                    if whole is not term:
                        found.setdefault(whole, set()).add(rule)
        for op, known in self._single.items():
            done[op] = len(known)
        gone = self._removed | ({without} if without else set())
        return {other for other, rules in found.items() if not rules <= gone}

    def _step(self, place: Term, rule: Rule) -> Iterator[Term]:
        bindings = match(rule.lhs, (place,))
        if bindings is None:
            return
        try:
            (new,) = instantiate(rule.rhs, bindings, "float")
        except IllTyped:
            return
        self.steps += 1
        if new.type == place.type and self._key(new) == self._key(place):
            yield new

    def _key(self, term: Term) -> tuple[tuple[int, ...], int]:
        if term not in self._keys:
            self._keys[term] = self.evaluator.key(term)
        return self._keys[term]
