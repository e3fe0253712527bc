"""The book of proofs: which rule is proven at which signature, under which conditions.

Proofs come from certificates that fit (same equation, same kernel) or are made on the spot; nothing else
allows a rewrite.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import superopt.ir
import superopt.ops
from superopt.ir.dim import NoValue, Size
from superopt.ir.notation import parse_condition, parse_signature, show_rule, show_signature
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Condition, Rule, Signature
from superopt.ir.term import topological
from superopt.ir.types import FLOAT_DTYPES
from verify.diagnose.weakest import weakest
from verify.prove.facts import Observer, solver_version
from verify.prove.prover import Proved, Unknown, Verdict, prove
from verify.verdict import NUMERICS

__all__ = [
    "Certificate", "ProofBook", "certify", "kernel_hash", "line_hash", "load_certificates", "prove_at",
    "with_weakest",
]  # fmt: skip

# Attributes that name an element type: what such an operator does depends on which real type "float" stands for.
_TYPE_ATTRS = frozenset({"to", "dtype"})
_OTHER_REALS = FLOAT_DTYPES - {"float"}


@cache
def kernel_hash() -> str:
    """Hash of the kernel's and the terms' source: a certificate made by another kernel does not count."""
    state = hashlib.blake2b(digest_size=16)
    for folder in (
        Path(__file__).parent,
        *(Path(str(package.__file__)).parent for package in (superopt.ir, superopt.ops)),
    ):
        sources = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
        for name in sorted(sources):
            state.update(f"{folder.name}/{name}".encode() + b"\0" + sources[name].read_bytes() + b"\0")
    return state.hexdigest()


def line_hash(line: str) -> str:
    """Hash of a rule's line as it stands in its file, signatures included."""
    return hashlib.blake2b(line.encode(), digest_size=16).hexdigest()


def prove_at(rule: Rule, signature: Signature, observer: Observer | None = None) -> Verdict:
    """The verdict on `rule` at `signature`; never raises for a rule that cannot be typed there.

    `observer` is `prove`'s.
    """
    try:
        left, right = rule.instantiate(signature)
    except (IllTyped, TypeError, IndexError) as error:  # the latter: a symbol where the operator needs a number
        return Unknown(f"cannot be typed: {error}")
    try:
        return prove(left, right, observer)
    except (IllTyped, NoValue) as error:  # at sizes that the signature admits and an operator does not
        return Unknown(f"cannot be typed: {error}")


def with_weakest(rule: Rule, signature: Signature, verdict: Verdict) -> Verdict:
    """A proof with the answer whether its guards are the weakest; other verdicts as they are."""
    if not isinstance(verdict, Proved):
        return verdict
    left, right = rule.instantiate(signature)
    return replace(verdict, weakest=weakest(left, right, verdict))


@dataclass(frozen=True)
class Certificate:
    """What a rule file may rely on: for one rule, by id and by the very line of its file, the signatures proven."""

    rule: str
    text: str  # hash of the line
    kernel: str
    solver: str
    proofs: tuple[tuple[Signature, Proved], ...]

    @staticmethod
    def of(rule: Rule, proofs: Iterable[tuple[Signature, Proved]], line: str | None = None) -> Certificate:
        """The certificate of proofs that this kernel has made; `line` is the rule's, where it is not printed by us."""
        text = line_hash(show_rule(rule) if line is None else line)
        return Certificate(rule.id, text, kernel_hash(), solver_version(), tuple(proofs))

    def misfit(self, rule: Rule, line: str) -> str | None:
        """Why this does not certify `rule`, which stands in `line`; None where it does."""
        if not rule.signatures:
            return "no signature to be certified at"
        proven = tuple(signature for signature, _ in self.proofs)
        if self.rule != rule.id or self.text != line_hash(line) or proven != rule.signatures:
            return "altered since it was certified"
        return None if self.kernel == kernel_hash() else "certified by another kernel"

    def to_json(self) -> str:
        """One line."""
        proofs = [
            {
                "signature": show_signature(signature),
                "conditions": [str(c) for c in proved.conditions],
                "guards": [str(c) for c in proved.guards],
                "obligations": proved.obligations,
                "numerics": proved.numerics,
                "roundings": None if proved.roundings is None else [str(size) for size in proved.roundings],
                "defined_left": proved.defined_left,
                "weakest": proved.weakest,
            }
            for signature, proved in self.proofs
        ]
        head = {"rule": self.rule, "text": self.text, "kernel": self.kernel, "solver": self.solver}
        return json.dumps({**head, "proofs": proofs})

    @staticmethod
    def from_json(line: str) -> Certificate:
        """Reads `to_json` back. Raises ValueError, KeyError or TypeError where the line is not a certificate."""
        data = json.loads(line)
        proofs = tuple((parse_signature(proof["signature"]), _proved(proof)) for proof in data["proofs"])
        return Certificate(data["rule"], data["text"], data["kernel"], data["solver"], proofs)


def _proved(proof: Mapping[str, Any]) -> Proved:
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


def certify(rule: Rule) -> tuple[Certificate | None, list[tuple[Signature, Verdict]]]:
    """All verdicts on `rule` at its signatures, and the certificate if every one (and at least one) is Proved."""
    verdicts = [(s, with_weakest(rule, s, prove_at(rule, s))) for s in rule.signatures]
    proofs = tuple((signature, v) for signature, v in verdicts if isinstance(v, Proved))
    if not proofs or len(proofs) < len(verdicts):
        return None, verdicts
    return Certificate.of(rule, proofs), verdicts


def load_certificates(path: Path) -> dict[str, Certificate]:
    """Certificates of a JSON-lines file by rule id, of any kernel. Raises ValueError with the line's number."""
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            certificate = Certificate.from_json(line)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: not a certificate ({type(error).__name__}: {error})") from error
        found[certificate.rule] = certificate
    return found


class ProofBook:
    """Answers whether a rule may be applied at a match. Verdicts are kept.

    `numerics` is the loosest class of proof that allows anything (see `verify.verdict.NUMERICS`). A certificate
    counts only if this kernel has made it.
    """

    def __init__(self, certificates: Mapping[str, Certificate] | None = None, numerics: str = "real-only") -> None:
        self._classes = NUMERICS[: NUMERICS.index(numerics) + 1]
        self._verdicts: dict[tuple[str, Signature], Verdict] = {}
        for certificate in (certificates or {}).values():
            if certificate.kernel == kernel_hash():
                for signature, proved in certificate.proofs:
                    self._verdicts[certificate.rule, signature] = proved

    def verdict(self, rule: Rule, signature: Signature) -> Verdict:
        """The verdict at `signature`. A proof of the reversed equation counts too: its conditions cover both sides,
        unless it assumes that its own left side is defined."""
        known = self._verdicts.get((rule.id, signature))
        if known is None:
            reverse = self._verdicts.get((rule.reversed().id, signature))
            known = reverse if isinstance(reverse, Proved) and not reverse.defined_left else prove_at(rule, signature)
            self._verdicts[rule.id, signature] = known
        return known

    def allows(self, rule: Rule, signature: Signature, bindings: Bindings) -> bool:
        """Whether `rule` is proven at `signature`, which covers this match, and every condition holds here."""
        if not signature.covers(bindings) or not _sizes_positive(bindings):
            return False
        if _names_a_type(rule) and bindings.dtype() in _OTHER_REALS:
            return False  # proven for "float", and true of no other real type
        verdict = self.verdict(rule, signature)
        if not isinstance(verdict, Proved) or verdict.numerics not in self._classes:
            return False
        env = bindings.shape_env()
        return all(condition.holds(env) for condition in verdict.conditions)

    def check(self, rule: Rule, bindings: Bindings) -> Signature | None:
        """A signature at which the rule may be applied to this match, or None."""
        for signature in (*rule.signatures, *rule.literal_signatures(bindings)):
            if self.allows(rule, signature, bindings):
                return signature
        return None


@lru_cache(maxsize=1 << 12)
def _names_a_type(rule: Rule) -> bool:
    return any(name in _TYPE_ATTRS for term in topological((*rule.lhs, *rule.rhs)) for name, _ in term.attrs)


def _sizes_positive(bindings: Bindings) -> bool:
    for term in bindings.terms.values():
        if term.type is None or term.type.shape is None or any(isinstance(s, int) and s < 1 for s in term.type.shape):
            return False
    return True
