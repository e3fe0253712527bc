"""Certificates, and the book that takes verdicts from them.

A certificate names its rule by id and by the hash of its line, and the kernel by `rule_kernel_hash`. The search
relies on certificates that fit. A written result relies only on proofs of the same run
(`verify.proof_book.ProofBook`, which reads no certificates).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from superopt.ir.dim import Size
from superopt.ir.notation import parse_condition, parse_signature, show_rule, show_signature
from superopt.ir.rule import Condition, Rule, Signature
from verify.certificates.kernel_digest import rule_analysis_hash, rule_kernel_hash
from verify.proof_book import Book, ProofBook, both_ways
from verify.prove.facts import solver_version
from verify.prove.prover import Refuter
from verify.stability.analysis import Directions
from verify.stability.classes import Stability
from verify.verdict import NUMERICS, Proved, Verdict

__all__ = ["Certificate", "CertifiedBook", "line_hash", "load_certificates", "proof_from_json", "proof_to_json"]


def line_hash(line: str) -> str:
    """Return the hash of a rule's line in its file, signatures included."""
    return hashlib.blake2b(line.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Certificate:
    """The proofs of one rule. The rule is named by its id and by the hash of its line in a file.

    `stability` holds the classes of the rule and of the reversed rule at each proof's signature, or nothing. They have
    a hash of their own, `analysis`: with another one the proofs hold and the classes do not.
    """

    rule: str
    text: str  # hash of the line
    kernel: str  # `rule_kernel_hash` of the rule
    solver: str
    proofs: tuple[tuple[Signature, Proved], ...]
    analysis: str = ""  # `rule_analysis_hash` of the rule
    stability: tuple[Directions, ...] = ()

    @staticmethod
    def of(
        rule: Rule,
        proofs: Iterable[tuple[Signature, Proved]],
        line: str | None = None,
        stability: Iterable[Directions] = (),
    ) -> Certificate:
        """Return a certificate of results of this kernel; `line` is the rule's text if `show_rule` did not print it."""
        text, classes = line_hash(show_rule(rule) if line is None else line), tuple(stability)
        analysis = rule_analysis_hash(rule) if classes else ""
        kernel, solver = rule_kernel_hash(rule), solver_version()
        return Certificate(rule.id, text, kernel, solver, tuple(proofs), analysis, classes)

    def misfit(self, rule: Rule, line: str) -> str | None:
        """Return the reason why this does not certify `rule`, written as `line`; None if it does."""
        if not rule.signatures:
            return "no signature to be certified at"
        proven = tuple(signature for signature, _ in self.proofs)
        if self.rule != rule.id or self.text != line_hash(line) or proven != rule.signatures:
            return "altered since it was certified"
        return None if self.kernel == rule_kernel_hash(rule) else "certified by another kernel"

    def to_json(self) -> str:
        """Return the certificate as one line of JSON."""
        head = {"rule": self.rule, "text": self.text, "kernel": self.kernel, "solver": self.solver}
        proofs = [
            {"signature": show_signature(signature), **proof_to_json(proved)} for signature, proved in self.proofs
        ]
        for proof, (forward, backward) in zip(proofs, self.stability, strict=False):
            proof["stability"] = {"forward": str(forward), "backward": str(backward)}
        return json.dumps({**head, "analysis": self.analysis, "proofs": proofs})

    @staticmethod
    def from_json(line: str) -> Certificate:
        """Read the output of `to_json`. Raises ValueError, KeyError or TypeError if the line is not a certificate."""
        data = json.loads(line)
        proofs = tuple((parse_signature(proof["signature"]), proof_from_json(proof)) for proof in data["proofs"])
        shown = [proof["stability"] for proof in data["proofs"] if "stability" in proof]
        classes = tuple((Stability.parse(one["forward"]), Stability.parse(one["backward"])) for one in shown)
        if len(classes) not in (0, len(proofs)):
            raise ValueError("stability classes for some of the proofs")
        analysis = data.get("analysis", "")
        return Certificate(data["rule"], data["text"], data["kernel"], data["solver"], proofs, analysis, classes)


def proof_to_json(proved: Proved) -> dict[str, Any]:
    """Return a proof as JSON data."""
    return {
        "conditions": [str(c) for c in proved.conditions],
        "guards": [str(c) for c in proved.guards],
        "obligations": proved.obligations,
        "numerics": proved.numerics,
        "roundings": None if proved.roundings is None else [str(size) for size in proved.roundings],
        "defined_left": proved.defined_left,
        "weakest": proved.weakest,
    }


def proof_from_json(proof: Mapping[str, Any]) -> Proved:
    """Read the output of `proof_to_json`. Raises ValueError, KeyError or TypeError."""
    if proof["numerics"] not in NUMERICS or not isinstance(proof["defined_left"], bool):
        raise ValueError(f"not a proof: {proof}")
    return Proved(
        _conditions(proof["conditions"]),
        _conditions(proof["guards"]),
        int(proof["obligations"]),
        proof["numerics"],
        None if proof["roundings"] is None else _sizes(*proof["roundings"]),
        proof["defined_left"],
        proof["weakest"],
    )


def _sizes(left: str, right: str) -> tuple[Size, Size]:
    both = parse_condition(f"{left} == {right}")
    return both.left, both.right


def _conditions(texts: Iterable[str]) -> tuple[Condition, ...]:
    return tuple(parse_condition(text) for text in texts)


def load_certificates(path: Path) -> list[Certificate]:
    """Read all certificates of a JSON-lines file, also outdated ones. Raises ValueError with the line's number."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            found.append(Certificate.from_json(line))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: not a certificate ({type(error).__name__}: {error})") from error
    return found


class CertifiedBook(Book):
    """A book that answers from certificates, and proves the rest in this run (`own`).

    `certificates` maps a rule to its certificate. The loader of the rules has checked that the certificate fits the
    rule's line (`superopt.rulebook.loading`). A certificate by another kernel is ignored.
    """

    def __init__(
        self, certificates: Mapping[Rule, Certificate], numerics: str = "real-only", refute: Refuter | None = None
    ) -> None:
        super().__init__(numerics)
        self.own = ProofBook(numerics, refute)
        self._certificates = certificates
        self._proofs: dict[Rule, Mapping[Signature, Proved]] = {}

    def certified(self, rule: Rule, signature: Signature) -> Proved | None:
        """Return the certified proof of the rule, or of the reversed equation if it holds both ways, else None."""
        here = self._of(rule).get(signature)
        return both_ways(self._of(rule.reversed()).get(signature)) if here is None else here

    def certified_stability(self, rule: Rule, signature: Signature) -> Stability | None:
        """Return the certified class of the rule, from its own certificate or from that of the reversed rule."""
        for direction, directed in enumerate((rule, rule.reversed())):
            found = self._certificates.get(directed)
            if found is not None and self._of(directed) and found.analysis == rule_analysis_hash(directed):
                for (at, _), classes in zip(found.proofs, found.stability, strict=False):
                    if at == signature:
                        return classes[direction]
        return None

    def stability(self, rule: Rule, signature: Signature) -> Stability:
        """Return the certified class if there is one, else the one that the kernel proves in this run."""
        return self.certified_stability(rule, signature) or self.own.stability(rule, signature)

    def verdict(self, rule: Rule, signature: Signature) -> Verdict:
        """Return the certified verdict if there is one, else the prover's."""
        return self.certified(rule, signature) or self.own.verdict(rule, signature)

    def _of(self, rule: Rule) -> Mapping[Signature, Proved]:
        if rule not in self._proofs:
            found = self._certificates.get(rule)
            fits = found is not None and found.rule == rule.id and found.kernel == rule_kernel_hash(rule)
            self._proofs[rule] = dict(found.proofs) if fits and found is not None else {}
        return self._proofs[rule]
