"""Verdicts for the search, from certificates and earlier runs. A written result relies only on proofs of this run."""

from __future__ import annotations

import json
from collections.abc import Mapping

from superopt.ir.notation import show_signature
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature
from superopt.optimizer.example_check import fails_at_example
from superopt.optimizer.non_finite import loses_guard
from superopt.optimizer.options import Options
from superopt.optimizer.proof_effort import GivenUp, calls_within, within_effort
from superopt.store import ResultStore, StabilityClass, StabilityKey, VerdictKey, VerdictProof
from verify.certificates import (
    Certificate,
    CertifiedBook,
    proof_from_json,
    proof_to_json,
    rule_analysis_hash,
    rule_kernel_hash,
)
from verify.diagnose.counterexample import find_counterexample
from verify.proof_book import Book, ProofBook, both_ways
from verify.propose.signatures import literal_signatures
from verify.replay import with_general_sizes
from verify.stability.classes import UNSTABLE, Stability, allowed
from verify.verdict import Proved, Unknown, Verdict

__all__ = ["ProofCache"]

_USUAL_BUDGET = Options().budget_s


class ProofCache(Book):
    """The book of proofs for the search. It keeps the prover's verdicts in `store`.

    Only verdicts by the same kernel are used. A rule that takes too long to prove, for a run of `budget_s` seconds,
    counts as not proven in this run, and that is not stored. `made` has the verdicts that this run had to find for the
    search. `own` has the proofs of this run. It uses no certificates and no verdicts of earlier runs, and the replay
    uses no other book. If not `proves`, rules with certificates are used only where these or an earlier run prove them;
    `uncertified` has those that a match would have needed elsewhere. Others are those of two operands or steps, written
    for more (`superopt.rulebook`).
    """

    def __init__(
        self,
        store: ResultStore,
        certificates: Mapping[Rule, Certificate] | None = None,
        numerics: str = "real-only",
        *,
        proves: bool = True,
        budget_s: float = _USUAL_BUDGET,
    ) -> None:
        super().__init__(numerics)
        self._listed: Mapping[Rule, Certificate] = certificates or {}
        self._proves, self._max_calls = proves, calls_within(budget_s)
        self._certified = CertifiedBook(self._listed, numerics, find_counterexample)
        self._verdicts: dict[tuple[Rule, Signature], Verdict] = {}
        self._stability: dict[tuple[Rule, Signature], Stability] = {}
        self._too_loose: dict[Rule, bool] = {}
        self._losing_guards: dict[tuple[Rule, frozenset[str]], bool] = {}
        self.made: dict[tuple[Rule, Signature], Verdict] = {}  # by proofs of this run, for the search
        self.uncertified: set[Rule] = set()
        self._keys: dict[tuple[Rule, Signature], VerdictKey] = {}  # keys of verdicts by earlier runs
        self._store = store

    @property
    def own(self) -> ProofBook:
        """The proofs made in this run."""
        return self._certified.own

    def check(self, rule: Rule, bindings: Bindings) -> Signature | None:
        """Return a signature at which the rule may be applied to this match, or None.

        At every level but "real-only", the rule must keep guards against NaN too (`loses_guard`).
        """
        found = self._allowed_signature(rule, bindings)
        return None if found is None or self.loses_guard(rule, bindings) else found

    def loses_guard(self, rule: Rule, bindings: Bindings) -> bool:
        """Return True if the level asks for rules that keep guards against NaN, and this one does not.

        That is tested once for a rule and the variables of it that stand for constants (`non_finite`).
        """
        if self._level == "real-only":
            return False
        key = rule, frozenset(name for name, term in bindings.terms.items() if term.is_constant)
        if key not in self._losing_guards:
            self._losing_guards[key] = loses_guard(rule, bindings)
        return self._losing_guards[key]

    def _allowed_signature(self, rule: Rule, bindings: Bindings) -> Signature | None:
        """Return a signature at which the rule is proven and of an accepted class, or None.

        Nothing is proven for the match if the rule is too loose at all signatures of its certificate, or if the sides
        differ at an example of the match.
        """
        general = with_general_sizes(bindings)
        for signature in rule.signatures:
            if self.allows(rule, signature, general):
                return signature
        if self._is_too_loose(rule):
            return None
        is_tested = False
        for signature in literal_signatures(rule, bindings):
            if not is_tested and self._known((rule, signature)) is None:
                if fails_at_example(rule, bindings):
                    return None
                is_tested = True
            if self.allows(rule, signature, general):
                return signature
        return None

    def _is_too_loose(self, rule: Rule) -> bool:
        """Return True if the rule's certificate has classes, and the level accepts none of them."""
        if rule not in self._too_loose:
            classes = [self._certified.certified_stability(rule, signature) for signature in rule.signatures]
            self._too_loose[rule] = any(classes) and not any(
                self._accepts(rule, signature, found)
                for signature, found in zip(rule.signatures, classes, strict=True)
                if found is not None
            )
        return self._too_loose[rule]

    def _accepts(self, rule: Rule, signature: Signature, found: Stability) -> bool:
        proofs = (self._certified.certified(directed, signature) for directed in (rule, rule.reversed()))
        proof = next(filter(None, proofs), None)
        return proof is None or proof.numerics == "exact" or allowed(self._level, proof.numerics, found)

    def verdict(self, rule: Rule, signature: Signature) -> Verdict:
        """Return the verdict at `signature` by this run or an earlier one."""
        at = (rule, signature)
        return self._known(at) or self._verdicts.setdefault(at, self._proven(at))

    def _known(self, at: tuple[Rule, Signature]) -> Verdict | None:
        """Return the verdict by a certificate, by an earlier run, or by this one so far, else None."""
        if at not in self._verdicts:
            rule, signature = at
            found: Verdict | None = self._certified.certified(rule, signature)
            found = found or both_ways(self._verdicts.get((rule.reversed(), signature))) or self._remembered(at)
            if found is None:
                return None
            self._verdicts[at] = found
        return self._verdicts[at]

    def stability(self, rule: Rule, signature: Signature) -> Stability:
        """Return the class by a certificate, by an earlier run, or by this one."""
        at = (rule, signature)
        if at not in self._stability:
            found = self._certified.certified_stability(rule, signature)
            self._stability[at] = found or self._remembered_stability(at) or self._proven_stability(at)
        return self._stability[at]

    def correct(self) -> None:
        """Delete stored proofs that this run could not repeat.

        Z3 may find a proof in one process and give up in another.
        """
        for at, key in self._keys.items():
            verdict = self.own.known(*at)
            if verdict is not None and not isinstance(verdict, Proved):
                self._remember(key, verdict)

    def _proven(self, at: tuple[Rule, Signature]) -> Verdict:
        if not self._may_prove(at[0]):
            self.uncertified.add(at[0])
            return Unknown("not proven before, and this run does not extend certificates")
        try:
            verdict = within_effort(self.own.verdict, *at, max_calls=self._max_calls)
        except GivenUp as error:
            return Unknown(f"not proven in this run: {error}")
        self._remember(_key(*at), verdict)
        self.made[at] = verdict
        return verdict

    def _may_prove(self, rule: Rule) -> bool:
        return self._proves or not any(one in self._listed for one in (rule, rule.reversed()))

    def _remembered(self, at: tuple[Rule, Signature]) -> Verdict | None:
        """Return the verdict of an earlier run, or None."""
        key = _key(*at)
        row = self._store.verdicts.get(key)
        if row is None:
            return None
        found: Verdict = Unknown("not proven by an earlier run")
        if row.proof is not None:
            try:
                found = proof_from_json(json.loads(row.proof))
            except (ValueError, KeyError, TypeError):  # not a proof in this version's form
                return None
        self._keys[at] = key
        return found

    def _remembered_stability(self, at: tuple[Rule, Signature]) -> Stability | None:
        row = self._store.stability.get(_stability_key(*at))
        try:
            return None if row is None else Stability.parse(row.text)
        except ValueError:  # not a class in this version's form
            return None

    def _proven_stability(self, at: tuple[Rule, Signature]) -> Stability:
        rule, signature = at
        if not self._may_prove(rule):
            return UNSTABLE
        try:
            found = within_effort(self.own.stability, rule, signature, max_calls=self._max_calls)
        except GivenUp:
            return UNSTABLE
        self._store.stability.put(_stability_key(*at), StabilityClass(str(found)))
        return found

    def _remember(self, key: VerdictKey, verdict: Verdict) -> None:
        proof = json.dumps(proof_to_json(verdict)) if isinstance(verdict, Proved) else None
        self._store.verdicts.put(key, VerdictProof(proof))


def _key(rule: Rule, signature: Signature) -> VerdictKey:
    """Return the key of a verdict: both sides of the rule, by their 128-bit digests, and the signature."""
    return VerdictKey(rule_kernel_hash(rule), _equation(rule), show_signature(signature))


def _stability_key(rule: Rule, signature: Signature) -> StabilityKey:
    return StabilityKey(rule_analysis_hash(rule), _equation(rule), show_signature(signature))


def _equation(rule: Rule) -> str:
    return " = ".join(" ".join(term.digest for term in side) for side in (rule.lhs, rule.rhs))
