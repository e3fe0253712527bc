"""Derivability: decides if an equation can be derived from the kept rules, so that it needs no rule of its own.

An equation is derivable if a few steps with kept rules lead from one side to the other, and a search would find them.
Each step must be found from the graph before it. No intermediate graph may have more multiply-adds than the more
expensive side, or cost more than that side by over one light operator. So two kinds of rules are kept. One kind is
direct rules whose derivation first makes the graph more expensive (a 1x1 kernel is enlarged before it is merged). The
other kind is rules that merge two products: both halves of the merged product can be derived from it, but no step leads
from the halves to the merged product.

Costs at these small sizes do not decide everything. If the sides only differ by a light operator, either side may be
the faster one, so each side must be found from the other: a rule that turns a sum of Convs into one Conv does not turn
one Conv into a sum. If a large rule saves multiply-adds, each step of its derivation must lower the cost. A model has
dozens of such graphs, and a search that first had to move operands around at each of them would run out of budget.

Steps are taken on the ground terms of the equation. Each step is checked by fingerprints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Set

from superopt.generate.conjectures.ground_equation import GroundEquation, operators, variables
from superopt.generate.derive import DerivationStep, Deriver, FingerprintCheck, normal
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.minimise.cost import EnumerationCost, cost
from superopt.ir.infer import OPERATORS
from superopt.ir.rule import Rule
from superopt.ir.term import CLOSED_FORM, Term, topological
from superopt.ops.meaning import NoSemantics
from superopt.properties import lists_numbers, moves

__all__ = ["Minimiser"]

_LARGE = 3  # operators at inference on a side
_EXPLANATION_STEPS, _MAX_EXPLANATION_GRAPHS = 3, 1000


class Minimiser:
    """The rules kept so far, and the equations that they derive.

    A derivation has at most `most_steps` steps. For a large equation, with more than `_LARGE` operators at inference on
    a side, it has at most `large_steps`, because a search takes several steps in a large graph anyway.
    """

    def __init__(self, evaluator: Evaluator, most_steps: int = 2, large_steps: int = 4) -> None:
        self.most_steps, self.large_steps = most_steps, large_steps
        self._admits = FingerprintCheck(evaluator)
        self._deriver = Deriver((), self._admits)
        self._costs: dict[tuple[tuple[Term, ...], frozenset[str]], EnumerationCost] = {}

    @property
    def steps(self) -> int:
        """Number of rule instances tried."""
        return self._deriver.tried

    def add(self, rule: Rule, one_way: bool = False) -> None:
        """Add a rule. `one_way`: it is applied from left to right only."""
        if one_way:
            self._admits.one_way.add(rule.reversed().id)
        self._deriver.add(rule)

    def remove(self, rule: Rule) -> None:
        """Remove a rule."""
        self._deriver.remove(rule)

    def derivable(self, equation: GroundEquation, without: Rule | None = None) -> bool:
        """Return True if a search with the kept rules (except `without`) needs no rule for this equation.

        There are two ways: a derivation is found in every direction that a search should take (`directions`), or both
        sides lead to the same graph by steps that each lower the cost.

        The gain of a rule with several outputs only shows at larger sizes, so both directions of such an equation must
        be found, and both of an equation that defines an operator. Other equations must be found in one step
        (`Family.is_found_whole`). Two kinds of operators are no steps between graphs without them. ONNX Runtime's own
        functions, such as FusedMatMul, are chosen last by a search, and not every target has them. Another way to move
        the same data costs as much, or more: Split(f(t)) = f(Split(t)) follows from Split(t).0 = Slice(t), but a search
        does not write the parts of a Split as Slices, and the parts as Split again, to move f.
        """
        lhs, rhs = normal(equation.lhs), normal(equation.rhs)
        if lhs == rhs:
            return True
        weights = equation.weights
        if equation.family.is_found_whole:
            return self.derivation(lhs, rhs, weights, without, most_steps=1) is not None
        directions = self.directions(equation)
        if directions and all(self.is_found(start, goal, weights, without) for start, goal in directions):
            return True
        is_direct = bool(equation.family.targets) or equation.family.states_meanings
        if len(lhs) > 1 or _is_algorithm(equation) or is_direct:
            return False
        known = _detours((*lhs, *rhs))
        low, other = (self._lowest(side, weights, known, without) for side in (lhs, rhs))
        if low is not other:
            return False
        # If a search may want the more expensive side, a path from that side to the other one is not enough.
        left, right = self._cost(lhs, weights), self._cost(rhs, weights)
        return left == right or not left.like(right) or low not in (*lhs, *rhs)

    def directions(self, equation: GroundEquation) -> list[tuple[tuple[Term, ...], tuple[Term, ...]]]:
        """Return the pairs (start, goal), in normal form, in which a search should find the equation.

        The first pair starts at the more expensive side. There is a second pair, in the other direction, if the costs
        do not decide which side is faster, or if the equation defines an operator. A rule for an algorithm (Constant)
        or a target is wanted at any cost.
        """
        lhs, rhs = normal(equation.lhs), normal(equation.rhs)
        if _is_algorithm(equation) or equation.family.targets:
            return [(lhs, rhs)]
        left, right = self._cost(lhs, equation.weights), self._cost(rhs, equation.weights)
        both = len(lhs) > 1 or left.like(right) or equation.family.states_meanings
        return [
            (start, goal)
            for start, goal, uphill in ((lhs, rhs, right.total > left.total), (rhs, lhs, left.total > right.total))
            if _is_used(start, goal) and (both or not uphill)
        ]

    def is_found(
        self, start: tuple[Term, ...], goal: tuple[Term, ...], weights: frozenset[str], without: Rule | None = None
    ) -> bool:
        """Return True if a search gets from `start` to `goal`, both in normal form."""
        saves = self._cost(goal, weights).work < self._cost(start, weights).work
        if len(start) == 1 and saves and self._is_large(start, goal, weights):
            price = self._price(weights, _detours((*start, *goal)))
            return self._deriver.falls(start[0], goal[0], price, self.large_steps, without)
        return self.derivation(start, goal, weights, without) is not None

    def derivation(
        self,
        start: tuple[Term, ...],
        goal: tuple[Term, ...],
        weights: frozenset[str],
        without: Rule | None = None,
        most_steps: int | None = None,
    ) -> tuple[DerivationStep, ...] | None:
        """Return the steps by which a search gets from `start` to `goal`, or None.

        There are at most `most_steps`, by default as many as the size of the graphs allows. Each output after the first
        allows one more step. No intermediate graph costs much more than the more expensive end.
        """
        one, other = self._cost(start, weights), self._cost(goal, weights)
        most = EnumerationCost(max(one.work, other.work), max(one.other, other.other))

        def passes(terms: tuple[Term, ...]) -> bool:
            return _detours(terms) <= known and self._cost(terms, weights).within(most)

        known = _detours((*start, *goal))
        usual = self.large_steps if self._is_large(start, goal, weights) else self.most_steps
        steps = (usual if most_steps is None else most_steps) + len(start) - 1
        return self._deriver.derive(start, goal, steps, without=without, passes=passes, forward=True)

    def explanation(self, equation: GroundEquation) -> tuple[DerivationStep, ...]:
        """Return steps from one side to the other at any cost; none if a short search finds none."""
        most, self._deriver.most = self._deriver.most, _MAX_EXPLANATION_GRAPHS
        try:
            return self._deriver.derive(equation.lhs, equation.rhs, _EXPLANATION_STEPS) or ()
        finally:
            self._deriver.most = most

    def forget(self) -> None:
        """Free memory; answers stay the same."""
        self._deriver.forget()
        self._admits.forget()
        self._costs.clear()

    def _is_large(self, start: tuple[Term, ...], goal: tuple[Term, ...], weights: frozenset[str]) -> bool:
        return max(operators(side, weights)[0] for side in (start, goal)) > _LARGE

    def _lowest(self, terms: tuple[Term, ...], weights: frozenset[str], known: Set[str], without: Rule | None) -> Term:
        (term,) = terms
        return self._deriver.descend(term, self._price(weights, known), without)

    def _price(self, weights: frozenset[str], known: Set[str]) -> Callable[[Term], float]:
        """Return the cost function for terms. Detours by operators that are not `known` cost infinity."""

        def price(term: Term) -> float:
            return self._cost((term,), weights).total if _detours((term,)) <= known else math.inf

        return price

    def _cost(self, terms: tuple[Term, ...], weights: frozenset[str]) -> EnumerationCost:
        found = self._costs.get((terms, weights))
        if found is None:
            try:
                found = cost(terms, weights)
            except NoSemantics:  # of an operator at these element types: nothing is proven about it
                found = EnumerationCost(math.inf, math.inf)
            self._costs[terms, weights] = found
        return found


def _is_used(start: tuple[Term, ...], goal: tuple[Term, ...]) -> bool:
    """Return True if a rule can construct `goal` from a match of `start`."""
    silent = any(term.op == "Var" or term.op in CLOSED_FORM for term in start)
    return not silent and set(variables(goal)) <= set(variables(start))


def _is_algorithm(equation: GroundEquation) -> bool:
    """Return True if the right side lists numbers of an algorithm (Constant), which no other rule introduces."""
    left, right = ({t.op for t in topological(side)} for side in (equation.lhs, equation.rhs))
    return any(map(lists_numbers, right - left))


def _detours(terms: Iterable[Term]) -> set[str]:
    """Return the names of the operators below `terms` that are not ONNX's own, or move data."""
    names = {t.op for t in topological(terms) if t.op in OPERATORS}
    return {name for name in names if OPERATORS[name].domain or moves(name)}
