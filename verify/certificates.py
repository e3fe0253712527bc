"""Certificates: proofs of earlier runs, kept beside the rules. They are a cache.

A certificate names its rule by id and by the hash of its line, and the kernel by a hash that covers the kernel's core
and the definitions of the operators that the rule mentions. The search relies on certificates that fit; what is written
rests on proofs of the same run (`verify.proof_book.ProofBook`, which reads no certificates).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import superopt.ir
import superopt.ops
from superopt.ir.dim import Size
from superopt.ir.notation import parse_condition, parse_signature, show_rule, show_signature
from superopt.ir.rule import Condition, Rule, Signature
from superopt.ir.term import topological
from verify.operator_digest import operator_digest
from verify.proof_book import Book, ProofBook, both_ways
from verify.prove.facts import solver_version
from verify.prove.prover import Refuter
from verify.prove.recurrence import INTRODUCED, is_recurrent
from verify.verdict import NUMERICS, Proved, Verdict

__all__ = [
    "Certificate", "CertifiedBook", "core_hash", "kernel_hash", "line_hash", "load_certificates", "proof_from_json",
    "proof_to_json", "rule_kernel_hash",
]  # fmt: skip

_VERIFY, _IR, _OPS = (Path(file).parent for file in (__file__, str(superopt.ir.__file__), str(superopt.ops.__file__)))
_IMPORTED_OPS = re.compile(r"^\s*(?:from|import) superopt\.ops\.(\w+)|^\s*from superopt\.ops import (.+)", re.MULTILINE)


@cache
def kernel_hash() -> str:
    """Hash of all source that a verdict may depend on, of all operators and of the search for counterexamples: names a
    build of the kernel in reports. Certificates use `rule_kernel_hash`."""
    return _source_hash(file for folder in (_VERIFY, _IR, _OPS) for file in folder.rglob("*.py"))


@cache
def core_hash() -> str:
    """Hash of the source that every proof depends on: `verify` without `verify.diagnose`, `superopt.ir`, and those
    modules of `superopt.ops` that these import. Entries of operators are not among it (see `rule_kernel_hash`)."""
    files = [*_IR.rglob("*.py"), *(f for f in _VERIFY.rglob("*.py") if "diagnose" not in f.relative_to(_VERIFY).parts)]
    for file in files:  # grows on the way
        files += [module for module in _ops_modules(file) if module not in files]
    return _source_hash(files)


def _ops_modules(file: Path) -> Iterator[Path]:
    for one, several in _IMPORTED_OPS.findall(file.read_text(encoding="utf-8")):
        for name in [one, *re.findall(r"\w+", several)]:
            if name and (_OPS / f"{name}.py").is_file():
                yield _OPS / f"{name}.py"


def _source_hash(files: Iterable[Path]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for name, file in sorted((_place(file), file) for file in files):
        state.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
    return state.hexdigest()


def _place(file: Path) -> str:
    folder = next(folder for folder in (_VERIFY, _IR, _OPS) if file.is_relative_to(folder))
    return f"{folder.name}/{file.relative_to(folder).as_posix()}"


@lru_cache(maxsize=1 << 14)
def rule_kernel_hash(rule: Rule) -> str:
    """Hash of the kernel as far as a proof of `rule` depends on it: its core, and the operators of the rule."""
    operators = {term.op for term in topological((*rule.lhs, *rule.rhs))}
    if any(map(is_recurrent, operators)):
        operators.update(INTRODUCED)
    parts = [core_hash(), *(f"{name} {operator_digest(name)}" for name in sorted(operators))]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def line_hash(line: str) -> str:
    """Hash of a rule's line as it stands in its file, signatures included."""
    return hashlib.blake2b(line.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Certificate:
    """The proofs of one rule, which is named by its id and by the hash of its line in a file."""

    rule: str
    text: str  # hash of the line
    kernel: str  # `rule_kernel_hash` of the rule
    solver: str
    proofs: tuple[tuple[Signature, Proved], ...]

    @staticmethod
    def of(rule: Rule, proofs: Iterable[tuple[Signature, Proved]], line: str | None = None) -> Certificate:
        """The certificate of proofs that this kernel has made; `line` is the rule's, where it is not printed by us."""
        text = line_hash(show_rule(rule) if line is None else line)
        return Certificate(rule.id, text, rule_kernel_hash(rule), solver_version(), tuple(proofs))

    def misfit(self, rule: Rule, line: str) -> str | None:
        """Why this does not certify `rule`, which stands in `line`; None where it does."""
        if not rule.signatures:
            return "no signature to be certified at"
        proven = tuple(signature for signature, _ in self.proofs)
        if self.rule != rule.id or self.text != line_hash(line) or proven != rule.signatures:
            return "altered since it was certified"
        return None if self.kernel == rule_kernel_hash(rule) else "certified by another kernel"

    def to_json(self) -> str:
        """One line."""
        head = {"rule": self.rule, "text": self.text, "kernel": self.kernel, "solver": self.solver}
        proofs = [
            {"signature": show_signature(signature), **proof_to_json(proved)} for signature, proved in self.proofs
        ]
        return json.dumps({**head, "proofs": proofs})

    @staticmethod
    def from_json(line: str) -> Certificate:
        """Read `to_json` back. Raises ValueError, KeyError or TypeError where the line is not a certificate."""
        data = json.loads(line)
        proofs = tuple((parse_signature(proof["signature"]), proof_from_json(proof)) for proof in data["proofs"])
        return Certificate(data["rule"], data["text"], data["kernel"], data["solver"], proofs)


def proof_to_json(proved: Proved) -> dict[str, Any]:
    """A proof as JSON data."""
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
    """Read `proof_to_json` back. Raises ValueError, KeyError or TypeError."""
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
    """The certificates of a JSON-lines file, whether they fit or not. Raises ValueError with the line's number."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            found.append(Certificate.from_json(line))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: not a certificate ({type(error).__name__}: {error})") from error
    return found


class CertifiedBook(Book):
    """Verdicts of certificates, where there are some, else proofs of this run (`own`).

    `certificates` maps a rule to its certificate: the reader has compared the rule's line with it
    (`superopt.rulebook.loading`). A certificate that another kernel has made does not count.
    """

    def __init__(
        self, certificates: Mapping[Rule, Certificate], numerics: str = "real-only", refute: Refuter | None = None
    ) -> None:
        super().__init__(numerics)
        self.own = ProofBook(numerics, refute)
        self._certificates = certificates
        self._proofs: dict[Rule, Mapping[Signature, Proved]] = {}

    def certified(self, rule: Rule, signature: Signature) -> Proved | None:
        """The proof that a certificate holds of the rule, or of the reversed equation where that is enough."""
        here = self._of(rule).get(signature)
        return both_ways(self._of(rule.reversed()).get(signature)) if here is None else here

    def verdict(self, rule: Rule, signature: Signature) -> Verdict:
        """Return the verdict of a certificate, else the prover's."""
        return self.certified(rule, signature) or self.own.verdict(rule, signature)

    def _of(self, rule: Rule) -> Mapping[Signature, Proved]:
        if rule not in self._proofs:
            found = self._certificates.get(rule)
            fits = found is not None and found.rule == rule.id and found.kernel == rule_kernel_hash(rule)
            self._proofs[rule] = dict(found.proofs) if fits and found is not None else {}
        return self._proofs[rule]
