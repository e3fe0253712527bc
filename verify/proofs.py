"""The book of proofs: which rule is proven at which signature, under which conditions.

Proofs come from certificates that fit (same equation, same kernel) or are made on the spot; nothing else
allows a rewrite.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import superopt.ir
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Condition, Rule, Signature
from superopt.ir.shapes import IllTyped
from superopt.ir.text import parse_condition, parse_signature, show_signature
from superopt.ir.types import FLOAT_DTYPES
from verify.facts import Observer, solver_version
from verify.prove import Proved, Unknown, Verdict, prove

__all__ = ["Certificate", "ProofBook", "certify", "kernel_hash", "load_certificates", "prove_at"]


@cache
def kernel_hash() -> str:
    """Hash of the kernel's and the terms' source: a certificate made by another kernel does not count."""
    state = hashlib.blake2b(digest_size=16)
    for folder in (Path(__file__).parent, Path(str(superopt.ir.__file__)).parent):
        for path in sorted(folder.glob("*.py")):
            state.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()


def prove_at(rule: Rule, signature: Signature, observer: Observer | None = None) -> Verdict:
    """The verdict on `rule` at `signature`; never raises for a rule that cannot be typed there.

    `observer` is `prove`'s.
    """
    try:
        left, right = rule.instantiate(signature)
    except IllTyped as error:
        return Unknown(f"cannot be typed: {error}")
    return prove(left, right, observer)


@dataclass(frozen=True)
class Certificate:
    """What a rule file may rely on: for one equation, the signatures proven and their conditions."""

    rule: str
    kernel: str
    solver: str
    proofs: tuple[tuple[Signature, Proved], ...]

    def to_json(self) -> str:
        """One line."""
        proofs = [
            {
                "signature": show_signature(signature),
                "conditions": [str(c) for c in proved.conditions],
                "guards": [str(c) for c in proved.guards],
                "obligations": proved.obligations,
            }
            for signature, proved in self.proofs
        ]
        return json.dumps({"rule": self.rule, "kernel": self.kernel, "solver": self.solver, "proofs": proofs})

    @staticmethod
    def from_json(line: str) -> Certificate:
        """Reads `to_json` back. Raises ValueError or KeyError where the line is not a certificate."""
        data = json.loads(line)
        proofs = tuple(
            (
                parse_signature(proof["signature"]),
                Proved(_conditions(proof["conditions"]), _conditions(proof["guards"]), int(proof["obligations"])),
            )
            for proof in data["proofs"]
        )
        return Certificate(data["rule"], data["kernel"], data["solver"], proofs)


def _conditions(texts: Iterable[str]) -> tuple[Condition, ...]:
    return tuple(parse_condition(text) for text in texts)


def certify(rule: Rule) -> tuple[Certificate | None, list[tuple[Signature, Verdict]]]:
    """All verdicts on `rule` at its signatures, and the certificate if every one (and at least one) is Proved."""
    verdicts = [(signature, prove_at(rule, signature)) for signature in rule.signatures]
    proofs = tuple((signature, v) for signature, v in verdicts if isinstance(v, Proved))
    if not proofs or len(proofs) < len(verdicts):
        return None, verdicts
    return Certificate(rule.id, kernel_hash(), solver_version(), proofs), verdicts


def load_certificates(path: Path) -> dict[str, Certificate]:
    """Certificates of a JSON-lines file by rule id; those of another kernel are left out (to be proven anew)."""
    found = {}
    for line in path.read_text().splitlines():
        certificate = Certificate.from_json(line)
        if certificate.kernel == kernel_hash():
            found[certificate.rule] = certificate
    return found


class ProofBook:
    """Answers whether a rule may be applied at a match. Verdicts are kept."""

    def __init__(self, certificates: Mapping[str, Certificate] | None = None) -> None:
        self._verdicts: dict[tuple[str, Signature], Verdict] = {}
        for certificate in (certificates or {}).values():
            for signature, proved in certificate.proofs:
                self._verdicts[certificate.rule, signature] = proved

    def verdict(self, rule: Rule, signature: Signature) -> Verdict:
        """The verdict at `signature`. A proof of the reversed equation counts too: its conditions cover both sides."""
        known = self._verdicts.get((rule.id, signature))
        if known is None:
            reverse = self._verdicts.get((rule.reversed().id, signature))
            known = reverse if isinstance(reverse, Proved) else prove_at(rule, signature)
            self._verdicts[rule.id, signature] = known
        return known

    def allows(self, rule: Rule, signature: Signature, bindings: Bindings) -> bool:
        """Whether `rule` is proven at `signature`, which covers this match, and every condition holds here."""
        if bindings.dtype() not in FLOAT_DTYPES or not _sizes_positive(bindings) or not signature.covers(bindings):
            return False
        verdict = self.verdict(rule, signature)
        if not isinstance(verdict, Proved):
            return False
        env = bindings.shape_env()
        return all(condition.holds(env) for condition in verdict.conditions)

    def check(self, rule: Rule, bindings: Bindings) -> Signature | None:
        """A signature at which the rule may be applied to this match, or None."""
        for signature in (*rule.signatures, *rule.literal_signatures(bindings)):
            if self.allows(rule, signature, bindings):
                return signature
        return None


def _sizes_positive(bindings: Bindings) -> bool:
    for term in bindings.terms.values():
        if term.type is None or term.type.shape is None or any(isinstance(s, int) and s < 1 for s in term.type.shape):
            return False
    return True
