"""Verdicts with diagnosis: counterexamples where a proof fails, and tests whether guards are the weakest."""

from __future__ import annotations

from dataclasses import replace

from superopt.ir.rule import Rule, Signature
from verify.certificates import Certificate
from verify.diagnose.counterexample import find_counterexample
from verify.diagnose.weakest import weakest
from verify.proof_book import prove_at
from verify.prove.facts import Observer
from verify.stability.analysis import stability
from verify.verdict import Proved, Verdict

__all__ = ["certify", "decide", "with_weakest"]


def decide(rule: Rule, signature: Signature, observer: Observer | None = None) -> Verdict:
    """Return the verdict on `rule` at `signature`: Refuted if a counterexample is found."""
    return prove_at(rule, signature, observer, find_counterexample)


def with_weakest(rule: Rule, signature: Signature, verdict: Verdict) -> Verdict:
    """Add to a proof the answer whether its guards are the weakest. Other verdicts are returned unchanged."""
    if not isinstance(verdict, Proved):
        return verdict
    left, right = rule.instantiate(signature)
    return replace(verdict, weakest=weakest(left, right, verdict))


def certify(rule: Rule) -> tuple[Certificate | None, list[tuple[Signature, Verdict]]]:
    """Return a certificate (None unless all verdicts, and at least one, are Proved) and the verdicts on `rule`."""
    verdicts = [(s, with_weakest(rule, s, decide(rule, s))) for s in rule.signatures]
    proofs = tuple((signature, v) for signature, v in verdicts if isinstance(v, Proved))
    if not proofs or len(proofs) < len(verdicts):
        return None, verdicts
    return Certificate.of(rule, proofs, stability=[stability(rule, s, proof) for s, proof in proofs]), verdicts
