"""From the conjectures of one family to proven rules.

The most general come first, and what proven rules give is never sent to the prover: derivable conjectures are dropped,
the others generalised and proven at the signature of the instance that they were found at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from superopt.generate.conjectures.equation import Equation, operators, variables
from superopt.generate.derive import normal
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.generalise.attributes import generalise
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.minimise.cost import EnumerationCost, cost
from superopt.generate.minimise.minimiser import Minimiser
from superopt.generate.minimise.usefulness import is_usable, is_weak
from superopt.generate.prove.used_signatures import UsedSignatures
from superopt.generate.stage_counts import StageCounts
from superopt.ir.notation import show_rule, show_signature
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, map_terms
from superopt.rulebook.variadic import Schema
from verify.diagnose.decide import decide
from verify.verdict import Counterexample, Proved, Refuted, Verdict

__all__ = ["ProvenRule", "Prover", "Settler", "CounterexampleCheck", "settle_order"]

_REMEMBERED = 100  # conjectures whose derivations are kept in memory

Prover: TypeAlias = Callable[[Rule, Signature], Verdict]
_Graph: TypeAlias = tuple[Term, ...]
_Form: TypeAlias = tuple[_Graph, EnumerationCost]  # a graph, and what something costs that is made of it
# What somebody else, who need not trust the kernel, says of a counterexample; kept beside it.
CounterexampleCheck: TypeAlias = Callable[[Rule, Signature, Counterexample], Mapping[str, str]]


@dataclass(frozen=True)
class ProvenRule:
    """A proven rule, and the equation that it was found as. `one_way`: the proof assumes that the left side is
    defined."""

    schema: Schema
    equation: Equation
    one_way: bool = False

    @property
    def rule(self) -> Rule:
        """The rule, without signatures."""
        return self.schema.rule


@dataclass
class Settler:
    """Rules kept so far, and what became of the conjectures."""

    evaluator: Evaluator
    seed: int
    prover: Prover = decide
    witness: CounterexampleCheck | None = None
    counts: StageCounts = field(default_factory=StageCounts)
    kept: list[ProvenRule] = field(default_factory=list)
    refused: list[dict[str, Any]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # of the prover, by rule id

    def __post_init__(self) -> None:
        self.used_signatures = UsedSignatures()
        self._schemas: dict[str, Schema] = {}
        self.check = SamplingCheck(self.evaluator, self.seed)
        self.minimiser = Minimiser(self.evaluator)
        self._seen: set[str] = set()
        self._sides: set[_Form] = set()
        self._forms: set[_Form] = set()

    def know(self, kept: Iterable[ProvenRule]) -> None:
        """Rules that were proven elsewhere."""
        for known in kept:
            self._remember(known)

    def knows(self, kept: ProvenRule) -> bool:
        """Whether a rule is the same as one that was kept, another form of it, or derivable."""
        side = (normal(kept.rule.lhs), cost(kept.equation.rhs, kept.equation.weights))
        again = kept.rule.id in self._seen or side in self._sides
        return again or self.minimiser.derivable(kept.equation) or self._is_other_form(kept.equation)

    def settle(self, equations: Iterable[Equation]) -> None:
        """Decides about each conjecture, in the given order."""
        for equation in equations:
            self.counts.conjectures += 1
            self._settle(_oriented(equation))
            if self.counts.conjectures % _REMEMBERED == 0:
                self.minimiser.forget()

    def explain(self, equation: Equation) -> None:
        """Notes at which signatures rules give an equation that is not kept."""
        self.used_signatures.add(self.minimiser.explanation(equation), self._schemas)

    def _remember(self, kept: ProvenRule) -> None:
        rule, equation = kept.rule, kept.equation
        self._schemas[rule.id] = kept.schema
        self._seen |= {rule.id, rule.reversed().id}
        self._sides.add((normal(rule.lhs), cost(equation.rhs, equation.weights)))
        self._forms.update(form for _, _, form in self._gains(equation))
        self.minimiser.add(rule, kept.one_way)

    def propose(self, schemas: Iterable[tuple[Schema, Equation]]) -> None:
        """Decides about conjectures that are general already, given with an instance of each."""
        for schema, equation in schemas:
            self.counts.conjectures += 1
            if self.minimiser.derivable(equation):
                self.counts.derivable += 1
            elif not self.check.holds(schema.rule, schema.base):
                self.counts.accidental += 1
            else:
                self._decide(schema, equation)

    def _gains(self, equation: Equation) -> list[tuple[_Graph, _Graph, _Form]]:
        """Of an equation with sides of different costs, each way that a search should find from a graph as models have
        it, with weights folded; and what it says: from which graph, whatever its variables are called, something of
        which cost is made."""
        weights = equation.weights
        if len(equation.lhs) > 1 or cost(equation.lhs, weights).total == cost(equation.rhs, weights).total:
            return []
        ways = [way for way in self.minimiser.ways(equation) if len(set(operators(way[0], weights))) == 1]
        return [(start, goal, (_renamed(start, weights), cost(goal, weights))) for start, goal in ways]

    def _is_other_form(self, equation: Equation) -> bool:
        """Whether kept rules make something as cheap of the same graph, as where a bias is in the other one of two
        Convs."""
        gains = self._gains(equation)
        if all(form not in self._forms for _, _, form in gains):
            return False
        is_found = self.minimiser.is_found
        return all(form in self._forms or is_found(start, goal, equation.weights) for start, goal, form in gains)

    def _settle(self, equation: Equation) -> None:
        if self.minimiser.derivable(equation):
            self.counts.derivable += 1
            self.explain(equation)
            return
        if is_weak(equation):
            self.counts.weak += 1
            return
        schema = generalise(equation, self.check)
        if schema is None:
            self.counts.accidental += 1
            return
        self._decide(schema, equation)

    def _decide(self, schema: Schema, equation: Equation) -> None:
        rule = schema.rule
        if rule.id in self._seen:
            self.counts.again += 1
            return
        if not is_usable(rule, equation.weights):
            self.counts.weak += 1
            return
        side = (normal(rule.lhs), cost(equation.rhs, equation.weights))
        if side in self._sides or self._is_other_form(equation):
            self.counts.weak += 1  # another form of a result that is known
            return
        self._seen |= {rule.id, rule.reversed().id}
        start = time.perf_counter()
        verdict = self.prover(rule, schema.base)
        self.seconds[rule.id] = self.seconds.get(rule.id, 0.0) + time.perf_counter() - start
        if isinstance(verdict, Proved):
            self.counts.proved += 1
            self.kept.append(ProvenRule(schema, equation, verdict.defined_left))
            self._remember(self.kept[-1])
        else:
            self._refuse(schema, verdict)

    def _refuse(self, schema: Schema, verdict: Verdict) -> None:
        refuted = isinstance(verdict, Refuted)
        self.counts.refuted += refuted
        self.counts.unknown += not refuted
        entry: dict[str, Any] = {
            "rule": show_rule(schema.rule),
            "signature": show_signature(schema.base),
            "verdict": type(verdict).__name__,
            "reason": str(getattr(verdict, "reason", "")),
        }
        shown = getattr(verdict, "counterexample", None)
        if isinstance(shown, Counterexample):
            entry["counterexample"] = str(shown)
            if self.witness is not None:
                entry["confirmation"] = dict(self.witness(schema.rule, schema.base, shown))
        self.refused.append(entry)


def settle_order(kept: Iterable[ProvenRule]) -> list[ProvenRule]:
    """Those that gain least first: the order in which redundant rules are looked for."""
    return sorted(kept, key=lambda k: _gain(k.equation))


def _oriented(equation: Equation) -> Equation:
    """The side with more operators at inference on the left; of several outputs, the side that computes them apart."""
    if len(equation.lhs) > 1:
        return equation
    if operators(equation.rhs, equation.weights) > operators(equation.lhs, equation.weights):
        return Equation(equation.rhs, equation.lhs, equation.family)
    return equation


def _renamed(terms: tuple[Term, ...], weights: frozenset[str]) -> tuple[Term, ...]:
    """The graph with variables named in the order in which they occur."""
    names = {v: f"{'w' if v.attr('name') in weights else 'x'}{k}" for k, v in enumerate(variables(terms))}

    def rename(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        attrs = {"name": names[old]} if old in names else dict(old.attrs)
        return Term.of(old.op, inputs, attrs, old.types)

    return normal(map_terms(terms, rename))


def _gain(equation: Equation) -> float:
    return abs(cost(equation.lhs, equation.weights).total - cost(equation.rhs, equation.weights).total)
