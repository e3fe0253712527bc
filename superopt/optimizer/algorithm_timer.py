"""Times algorithms for an operator, such as Winograd convolution, against the operator itself."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological, var
from superopt.properties import lists_numbers
from superopt.runtime import Target
from superopt.search import AnalyticCost, ModelTimer, Untimed
from superopt.search.cost.graph_cost import GraphCost
from superopt.search.cost.microbench import random_array
from superopt.store import ResultStore

__all__ = ["AlgorithmTimer", "alone", "without_algorithms"]

_SECONDS = 0.2  # for one timing


def without_algorithms(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Drop rules that list numbers: algorithms, and those against denormal numbers. They need timings."""
    return (rule for rule in rules if not any(lists_numbers(term.op) for term in topological((*rule.lhs, *rule.rhs))))


def alone(bindings: Bindings) -> Bindings:
    """Return bindings to weights and variables of the same types, by the names of the rule's variables."""
    return Bindings({name: _leaf(name, term) for name, term in sorted(bindings.terms.items())}, bindings.attrs)


class AlgorithmTimer:
    """Measures how many times as fast a rule makes an operator (`superopt.search.strategy.algorithms`).

    Operators are timed alone, at the sizes of each of `costs`; the worst counts. So their weights are in the cache, and
    the time for reading them is added, which `costs` predict. Timings are kept in `store`. From the first one on, they
    may take `budget_s` seconds.
    """

    def __init__(
        self, costs: Sequence[AnalyticCost], target: Target, *, opset: int, budget_s: float, store: ResultStore
    ) -> None:
        self._costs, self._target, self._opset, self._store = costs, target, opset, store
        self._budget_s, self._deadline = budget_s, math.inf
        self._cases: dict[object, _Case] = {}

    def expected_ps(self, rule: Rule, bindings: Bindings) -> int:
        """Return the picoseconds that the first of `costs` expects a rule to save."""
        return self._case(rule, bindings).expected_ps

    def measured(self, rule: Rule, bindings: Bindings) -> float:
        """Return the ratio of times, before by after; 0 if it cannot be measured."""
        if math.isinf(self._deadline):
            self._deadline = time.monotonic() + self._budget_s
        case = self._case(rule, bindings)
        if case.ratio is None:
            case.ratio = min(self._ratio(case, cost) for cost in self._costs)
        return case.ratio

    def _case(self, rule: Rule, bindings: Bindings) -> _Case:
        operator, dtype = alone(bindings), bindings.dtype() or "float"
        leaves = operator.terms
        key = rule, tuple(leaves.values()), tuple(sorted(bindings.attrs.items()))
        if key not in self._cases:
            before, after = (tuple(instantiate(side, operator, dtype)) for side in (rule.lhs, rule.rhs))
            prices = GraphCost(self._costs[0])
            expected_ps = prices.price(before).time_ps - prices.price(after).time_ps
            weights = tuple(leaf for leaf in leaves.values() if leaf.is_constant)
            self._cases[key] = _Case(before, after, weights, expected_ps)
        return self._cases[key]

    def _ratio(self, case: _Case, cost: AnalyticCost) -> float:
        arrays = {
            str(leaf.attr("hash")): random_array(leaf.type, number)
            for number, leaf in enumerate(case.weights)
            if leaf.type is not None
        }
        timer = ModelTimer(
            self._target,
            arrays,
            sizes=cost.sizes,
            opset=self._opset,
            budget_s=_SECONDS,
            deadline=self._deadline,
            store=self._store,
        )
        try:
            gain = timer(case.before, case.after)
        except Untimed:
            gain = None
        if gain is None:
            return 0.0
        prices = GraphCost(cost)
        first, second = prices.price(case.before), prices.price(case.after)
        own_ps = first.time_ps - prices.weight_read_ps(first.weight_bytes)
        return first.time_ps / (own_ps / gain.low + prices.weight_read_ps(second.weight_bytes))


@dataclass
class _Case:
    """An operator alone, before and after a rule, over leaves of the types of its operands; some are `weights`.

    `ratio` is that of the measured times, None before they are.
    """

    before: tuple[Term, ...]
    after: tuple[Term, ...]
    weights: tuple[Term, ...]
    expected_ps: int
    ratio: float | None = None


def _leaf(name: str, term: Term) -> Term:
    """Return a weight or a variable of the type of `term`."""
    assert term.type is not None
    return Term.of("Const", (), {"hash": name}, (term.type,)) if term.is_constant else var(name, term.type)
