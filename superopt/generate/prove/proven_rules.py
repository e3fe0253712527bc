"""The rules proven so far, with the test if another equation adds something new."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from superopt.generate.conjectures.ground_equation import GroundEquation, operators, variables
from superopt.generate.derive import normal
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.minimise.cost import EnumerationCost, cost
from superopt.generate.minimise.minimiser import Minimiser
from superopt.generate.prove.used_signatures import UsedSignatures
from superopt.ir.rule import Rule
from superopt.ir.term import CLOSED_FORM, Term, map_terms, topological
from superopt.rulebook.variadic import Schema

__all__ = ["ProvenRule", "ProvenRules", "by_gain"]

_Graph: TypeAlias = tuple[Term, ...]
_Result: TypeAlias = tuple[_Graph, EnumerationCost]  # a graph, and the cost of a graph that it is rewritten to
# The same with the shapes of the graph's constants, which a rule may leave open: x * 0 is a constant of the shape of x
# or of the shape of 0.
_Side: TypeAlias = tuple[_Graph, EnumerationCost, tuple[int, ...]]


@dataclass(frozen=True)
class ProvenRule:
    """A proven rule, and the ground equation that it was generalised from.

    `one_way`: the proof assumes that the left side is defined, so the rule is not proven from right to left.
    """

    schema: Schema
    equation: GroundEquation
    one_way: bool = False

    @property
    def rule(self) -> Rule:
        """The rule, without signatures."""
        return self.schema.rule


class ProvenRules:
    """A growing set of proven rules, with the signatures at which derivations use them."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.minimiser = Minimiser(evaluator)
        self.used_signatures = UsedSignatures()
        self._schemas: dict[str, Schema] = {}
        self._seen: set[str] = set()  # ids of rules, in both directions
        self._sides: set[_Side] = set()  # left sides of rules, and the cost of their right sides
        # The sides of instances, with variables renamed, in every useful direction.
        self._results: set[_Result] = set()

    def add(self, proven: ProvenRule) -> None:
        """Add a proven rule."""
        rule = proven.rule
        self._schemas[rule.id] = proven.schema
        self.mark_seen(rule)
        self._sides.add(_side(rule, proven.equation))
        self._results.update(result for _, _, result in self._gains(proven.equation))
        # A written function is not reversed, except where its own rule can be: see `stages.prove_signatures`.
        leads_back = rule.reversed().applicable or not proven.equation.family.is_written_function
        self.minimiser.add(rule, proven.one_way or not leads_back)

    def mark_seen(self, rule: Rule) -> None:
        """Remember that a rule was sent to the prover, whatever the verdict."""
        self._seen |= {rule.id, rule.reversed().id}

    def has_seen(self, rule: Rule) -> bool:
        """Return True if the rule was sent to the prover, in either direction."""
        return rule.id in self._seen

    def covers(self, proven: ProvenRule, others: Iterable[GroundEquation]) -> bool:
        """Return True if the rule is in the set, is another form of a rule in it, or can be derived from it.

        It must be derivable at its own instance and at all `others`.
        """
        again = self.has_seen(proven.rule) or _side(proven.rule, proven.equation) in self._sides
        derived = again or all(map(self.minimiser.derivable, itertools.chain((proven.equation,), others)))
        return derived or self._is_other_form(proven.equation)

    def has_equivalent(self, rule: Rule, equation: GroundEquation) -> bool:
        """Return True if a rule in the set rewrites the same graph to one of the same cost."""
        return _side(rule, equation) in self._sides or self._is_other_form(equation)

    def note_uses(self, equations: Iterable[GroundEquation]) -> None:
        """Count the signatures at which rules of the set are used to derive equations that are not kept."""
        for equation in equations:
            self.used_signatures.add(self.minimiser.explanation(equation), self._schemas)

    def _gains(self, equation: GroundEquation) -> list[tuple[_Graph, _Graph, _Result]]:
        """Return the directions of an equation that a search should find, each with a key for comparison.

        A direction only counts if its first graph occurs in models, which means that its weights are folded. The key is
        the first graph with variables renamed, and the cost of the second graph. Equations whose sides have equal costs
        have no gains.
        """
        weights = equation.weights
        if len(equation.lhs) > 1 or cost(equation.lhs, weights).total == cost(equation.rhs, weights).total:
            return []
        directions = [d for d in self.minimiser.directions(equation) if len(set(operators(d[0], weights))) == 1]
        return [(start, goal, (_renamed(start, weights), cost(goal, weights))) for start, goal in directions]

    def _is_other_form(self, equation: GroundEquation) -> bool:
        """Return True if proven rules rewrite the same graphs to results of the same cost.

        Example: in the rule the first of two Convs has a bias, and in the equation the second.
        """
        gains = self._gains(equation)
        if all(result not in self._results for _, _, result in gains):
            return False
        is_found = self.minimiser.is_found
        return all(result in self._results or is_found(start, goal, equation.weights) for start, goal, result in gains)


def by_gain(proven: Iterable[ProvenRule]) -> list[ProvenRule]:
    """Return the rules sorted by the difference in cost of their sides, the smallest gain first.

    Rules are tested for redundancy in this order.
    """
    return sorted(proven, key=lambda one: _gain(one.equation))


def _side(rule: Rule, equation: GroundEquation) -> _Side:
    constants = (t.type for t in topological(equation.lhs) if t.op in CLOSED_FORM)
    ranks = tuple(0 if t is None or t.shape is None else len(t.shape) for t in constants)
    return normal(rule.lhs), cost(equation.rhs, equation.weights), ranks


def _renamed(terms: tuple[Term, ...], weights: frozenset[str]) -> tuple[Term, ...]:
    """Return the graph with variables named in the order in which they occur."""
    names = {v: f"{'w' if v.attr('name') in weights else 'x'}{k}" for k, v in enumerate(variables(terms))}

    def rename(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        attrs = {"name": names[old]} if old in names else dict(old.attrs)
        return Term.of(old.op, inputs, attrs, old.types)

    return normal(map_terms(terms, rename))


def _gain(equation: GroundEquation) -> float:
    return abs(cost(equation.lhs, equation.weights).total - cost(equation.rhs, equation.weights).total)
