"""Proves the conjectures of one family.

The most general conjectures come first. A conjecture that can be derived from proven rules, at all ranks and along all
axes, is dropped. Every other conjecture is generalised, and proven at the signature of its instance.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from superopt.generate.conjectures.ground_equation import GroundEquation, operators
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.generalise.equation_to_rule import generalise
from superopt.generate.generalise.kept_axes import with_kept_axes
from superopt.generate.generalise.narrower import narrower, with_equal_parts
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.minimise.usefulness import is_usable, is_weak
from superopt.generate.prove.other_ranks import at_other_ranks
from superopt.generate.prove.proven_rules import ProvenRule, ProvenRules
from superopt.generate.stage_counts import StageCounts
from superopt.ir.notation import show_rule, show_signature
from superopt.ir.rule import Rule, Signature
from superopt.rulebook.variadic import Schema
from verify.diagnose.decide import decide
from verify.stability.analysis import stability
from verify.stability.classes import UNSTABLE
from verify.verdict import Counterexample, Proved, Refuted, Verdict

__all__ = ["ConjectureProver", "CounterexampleCheck", "Prover"]

_CACHED_CONJECTURES = 100  # derivations are kept in memory for this many conjectures

Prover: TypeAlias = Callable[[Rule, Signature], Verdict]
# An independent check of a counterexample, such as a run in ONNX Runtime. Its answer is stored beside the verdict.
CounterexampleCheck: TypeAlias = Callable[[Rule, Signature, Counterexample], Mapping[str, str]]


@dataclass
class ConjectureProver:
    """Proves conjectures one after the other, and counts the outcomes."""

    evaluator: Evaluator
    seed: int
    prover: Prover = decide
    confirm: CounterexampleCheck | None = None
    counts: StageCounts = field(default_factory=StageCounts)
    kept: list[ProvenRule] = field(default_factory=list)  # rules proven here, in order
    refused: list[dict[str, Any]] = field(default_factory=list)  # rules that were not proven: lines of refused.jsonl
    seconds: dict[str, float] = field(default_factory=dict)  # time of the prover, by rule id

    def __post_init__(self) -> None:
        self.known = ProvenRules(self.evaluator)
        self.check = SamplingCheck(self.evaluator, self.seed)

    def prove_all(self, equations: Iterable[GroundEquation]) -> None:
        """Decide about each conjecture, in the given order."""
        for equation in equations:
            self.counts.conjectures += 1
            self._decide(_oriented(equation))
            if self.counts.conjectures % _CACHED_CONJECTURES == 0:
                self.known.minimiser.forget()

    def prove_general(self, schemas: Iterable[tuple[Schema, GroundEquation]]) -> None:
        """Decide about conjectures that need no generalisation, each given with one instance."""
        for schema, equation in schemas:
            self.counts.conjectures += 1
            if self.known.minimiser.derivable(equation):
                self.counts.derivable += 1
            elif not self.check.holds(schema.rule, schema.base):
                self.counts.accidental += 1
            else:
                self._prove(schema, equation)

    def _decide(self, equation: GroundEquation) -> None:
        if self._is_derivable(equation):
            self.counts.derivable += 1
            return
        if is_weak(equation):
            self.counts.weak += 1
            return
        schema = generalise(equation, self.check)
        if schema is None:
            self.counts.accidental += 1
            return
        self._prove(schema, equation)

    def _is_derivable(self, equation: GroundEquation) -> bool:
        """Return True if an equation follows from proven rules, at the other ranks as well; then note their uses.

        Those of operators on single elements are not tried at other ranks, where the same steps lead to it: sums of
        five operators took minutes each.
        """
        if not self.known.minimiser.derivable(equation):
            return False
        family = equation.family
        schema = None if family.is_window or family.is_elementwise else generalise(equation, self.check)
        others = () if schema is None else tuple(at_other_ranks(schema, family, self.check))
        found = all(map(self.known.minimiser.derivable, others))
        if found:
            self.known.note_uses((equation, *others))
        return found

    def _prove(self, schema: Schema, equation: GroundEquation) -> None:
        rule = schema.rule
        if self.known.has_seen(rule):
            self.counts.again += 1
            return
        if not is_usable(rule, equation.weights) or self.known.has_equivalent(rule, equation):
            self.counts.weak += 1
            return
        self.known.mark_seen(rule)
        start = time.perf_counter()
        schema, verdict = self._verdict(schema, equation)
        self.seconds[rule.id] = self.seconds.get(rule.id, 0.0) + time.perf_counter() - start
        if isinstance(verdict, Proved):
            if equation.family.is_written_function and stability(schema.rule, schema.base, verdict)[0] == UNSTABLE:
                # A special case of it may be stable, which would follow from it in one step.
                self.counts.weak += 1
                return
            self.counts.proved += 1
            self.kept.append(ProvenRule(schema, equation, verdict.defined_left))
            self.known.add(self.kept[-1])
        else:
            self._refuse(schema, verdict)

    def _verdict(self, schema: Schema, equation: GroundEquation) -> tuple[Schema, Verdict]:
        """Return the verdict on the rule. If it is not proven, narrower forms are tried."""
        forms = narrower(schema, equation) if equation.family.targets else (schema,)
        forms = itertools.chain(forms, with_equal_parts(schema, equation), with_kept_axes(schema, equation))
        verdicts: list[tuple[Schema, Verdict]] = []
        for form in forms:
            verdicts.append((form, self.prover(form.rule, form.base)))
            if isinstance(verdicts[-1][1], Proved):
                return verdicts[-1]
        return verdicts[0]

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
            if self.confirm is not None:
                entry["confirmation"] = dict(self.confirm(schema.rule, schema.base, shown))
        self.refused.append(entry)


def _oriented(equation: GroundEquation) -> GroundEquation:
    """Return the equation with the side that runs more operators on the left.

    If there are several outputs, the side that computes them separately is kept on the left, and so is a target.
    """
    if len(equation.lhs) > 1 or equation.family.targets:
        return equation
    if operators(equation.rhs, equation.weights) > operators(equation.lhs, equation.weights):
        return GroundEquation(equation.rhs, equation.lhs, equation.family)
    return equation
