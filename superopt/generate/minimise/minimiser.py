"""Leaving out what smaller rules already give.

An equation is derivable when few steps with kept rules lead from one side to the other, each found from the graph
before it, and no graph between has more multiply-adds than the dearer side, nor more than one light operator more: a
search finds it without this rule. Direct rules whose derivation leads uphill stay (a 1x1 kernel enlarged before it is
merged), and so does what merges two products, though both halves of the merged one follow: from them nothing leads
there.

Costs at these small sizes do not say everything. Where sides differ by a light operator only, either may be the faster
one, and each must be found from the other: that a sum of Convs gives one Conv does not make a sum of one Conv. Where a
large law saves multiply-adds, each step of its derivation must be cheaper than the one before: a model has such graphs
by the dozen, and a search that first has to move operands about at each of them comes to its end before it is through.

Steps are taken on the ground terms of the equation; that a step is right there is checked by its fingerprint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Set

from superopt.generate.conjectures.equation import Equation, operators, variables
from superopt.generate.derive import DerivationStep, Deriver, FingerprintCheck, normal
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.minimise.cost import EnumerationCost, cost
from superopt.ir.infer import OPERATORS
from superopt.ir.rule import Rule
from superopt.ir.term import CLOSED_FORM, Term, topological

__all__ = ["Minimiser"]

_LARGE = 3
_EXPLAINED, _MOST_EXPLAINED = 3, 1000  # steps, and graphs looked at


class Minimiser:
    """The rules kept so far, and which equations they give.

    A derivation has at most `most_steps` steps, and that of a large law, with more than `_LARGE` operators at inference
    on a side, `large_steps`: a search that meets it takes these steps anyway, one after the other.
    """

    def __init__(self, evaluator: Evaluator, most_steps: int = 2, large_steps: int = 4) -> None:
        self.most_steps, self.large_steps = most_steps, large_steps
        self._admits = FingerprintCheck(evaluator)
        self._deriver = Deriver((), self._admits)
        self._costs: dict[tuple[tuple[Term, ...], frozenset[str]], EnumerationCost] = {}

    @property
    def steps(self) -> int:
        """Instances of rules that were looked at."""
        return self._deriver.tried

    def add(self, rule: Rule, one_way: bool = False) -> None:
        """From now on equations that `rule` gives are derivable; `one_way`: read from left to right only."""
        if one_way:
            self._admits.one_way.add(rule.reversed().id)
        self._deriver.add(rule)

    def remove(self, rule: Rule) -> None:
        """`rule` no longer counts."""
        self._deriver.remove(rule)

    def derivable(self, equation: Equation, without: Rule | None = None) -> bool:
        """Whether a search with the kept rules (all but `without`) needs no rule for this equation: both sides lead to
        one graph by steps downhill, or each is found from the other, uphill aside.

        What several outputs together gain shows at larger sizes only: each side of such an equation must be found.
        Functions of ONNX Runtime's own, such as FusedMatMul, are no way between standard operators: a search chooses
        them last, and not every target has them.
        """
        lhs, rhs = normal(equation.lhs), normal(equation.rhs)
        if lhs == rhs:
            return True
        weights = equation.weights
        directions = self.directions(equation)
        if directions and all(self.is_found(start, goal, weights, without) for start, goal in directions):
            return True
        if len(lhs) > 1 or _is_algorithm(equation):
            return False
        functions = _functions((*lhs, *rhs))
        low, other = (self._lowest(side, weights, functions, without) for side in (lhs, rhs))
        if low is not other:
            return False
        # Where it may be the dearer side that is wanted, nothing is said by getting from there to the other one.
        left, right = self._cost(lhs, weights), self._cost(rhs, weights)
        return left == right or not left.like(right) or low not in (*lhs, *rhs)

    def directions(self, equation: Equation) -> list[tuple[tuple[Term, ...], tuple[Term, ...]]]:
        """From which side to which, in normal form, a search should get: from the dearer one, and from the other one,
        too, where costs do not say which that is. An algorithm is wanted whatever it costs here."""
        lhs, rhs = normal(equation.lhs), normal(equation.rhs)
        if _is_algorithm(equation):
            return [(lhs, rhs)]
        left, right = self._cost(lhs, equation.weights), self._cost(rhs, equation.weights)
        both = len(lhs) > 1 or left.like(right)
        return [
            (start, goal)
            for start, goal, uphill in ((lhs, rhs, right.total > left.total), (rhs, lhs, left.total > right.total))
            if _is_used(start, goal) and (both or not uphill)
        ]

    def is_found(
        self, start: tuple[Term, ...], goal: tuple[Term, ...], weights: frozenset[str], without: Rule | None = None
    ) -> bool:
        """Whether a search gets from `start` to `goal`, both in normal form."""
        saves = self._cost(goal, weights).work < self._cost(start, weights).work
        if len(start) == 1 and saves and self._is_large(start, goal, weights):
            price = self._price(weights, _functions((*start, *goal)))
            return self._deriver.falls(start[0], goal[0], price, self.large_steps, without)
        return self.derivation(start, goal, weights, without) is not None

    def derivation(
        self, start: tuple[Term, ...], goal: tuple[Term, ...], weights: frozenset[str], without: Rule | None = None
    ) -> tuple[DerivationStep, ...] | None:
        """The steps by which a search gets from `start` to `goal`, one more for each further output; no graph between
        costs much more than the dearer end. None where none are found."""
        one, other = self._cost(start, weights), self._cost(goal, weights)
        most = EnumerationCost(max(one.work, other.work), max(one.other, other.other))

        def passes(terms: tuple[Term, ...]) -> bool:
            return _functions(terms) <= functions and self._cost(terms, weights).within(most)

        functions = _functions((*start, *goal))
        steps = (self.large_steps if self._is_large(start, goal, weights) else self.most_steps) + len(start) - 1
        return self._deriver.derive(start, goal, steps, without=without, passes=passes, forward=True)

    def explanation(self, equation: Equation) -> tuple[DerivationStep, ...]:
        """Steps from one side to the other, up or downhill; none where none are found without much ado."""
        most, self._deriver.most = self._deriver.most, _MOST_EXPLAINED
        try:
            return self._deriver.derive(equation.lhs, equation.rhs, _EXPLAINED) or ()
        finally:
            self._deriver.most = most

    def forget(self) -> None:
        """Gives memory back; answers stay the same."""
        self._deriver.forget()
        self._admits.forget()
        self._costs.clear()

    def _is_large(self, start: tuple[Term, ...], goal: tuple[Term, ...], weights: frozenset[str]) -> bool:
        return max(operators(side, weights)[0] for side in (start, goal)) > _LARGE

    def _lowest(
        self, terms: tuple[Term, ...], weights: frozenset[str], functions: Set[str], without: Rule | None
    ) -> Term:
        (term,) = terms
        return self._deriver.descend(term, self._price(weights, functions), without)

    def _price(self, weights: frozenset[str], functions: Set[str]) -> Callable[[Term], float]:
        """What a term costs; none with functions other than these is to be had."""

        def price(term: Term) -> float:
            return self._cost((term,), weights).total if _functions((term,)) <= functions else math.inf

        return price

    def _cost(self, terms: tuple[Term, ...], weights: frozenset[str]) -> EnumerationCost:
        found = self._costs.get((terms, weights))
        if found is None:
            found = self._costs[terms, weights] = cost(terms, weights)
        return found


def _is_used(start: tuple[Term, ...], goal: tuple[Term, ...]) -> bool:
    """Whether a rule can say what `goal` is where it has found `start`."""
    silent = any(term.op == "Var" or term.op in CLOSED_FORM for term in start)
    return not silent and set(variables(goal)) <= set(variables(start))


def _is_algorithm(equation: Equation) -> bool:
    """Whether the right side brings numbers of its own (Constant), which no other rule comes upon."""
    left, right = ({t.op for t in topological(side)} for side in (equation.lhs, equation.rhs))
    return "Constant" in right - left


def _functions(terms: Iterable[Term]) -> set[str]:
    """Names of the operators below `terms` that ONNX does not have."""
    return {t.op for t in topological(terms) if t.op in OPERATORS and OPERATORS[t.op].domain}
