"""What the report says, without how it looks. `to_json` is versioned: a change of meaning raises the version."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

__all__ = ["SCHEMA_VERSION", "Candidate", "Counterexample", "Proof", "Report", "RuleEntry", "Totals"]

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Proof:
    """A rule at one signature: what is literal there, and under which conditions it is proven.

    `proven` is false where no certificate covers the signature; then the rest is empty. `guards` are those of the
    `conditions` that the left side's typing does not imply.
    """

    signature: str
    ranks: dict[str, int]
    proven: bool
    conditions: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    obligations: int = 0


@dataclass(frozen=True)
class RuleEntry:
    """One rule. `status`: "certified"; "partly" where signatures lack a proof; "other kernel" where the certificate
    was made by another version of the kernel and will not be relied on; "none" without a certificate."""

    id: str
    family: str
    line: int
    equation: str
    left: str
    right: str
    outputs: int
    operators: tuple[str, ...]
    variables: tuple[str, ...]
    backwards: bool  # whether the equation may be applied right to left as well
    status: str
    kernel: str
    solver: str
    proofs: tuple[Proof, ...]

    @property
    def guards(self) -> tuple[str, ...]:
        """Guards of all signatures, each once."""
        return tuple(dict.fromkeys(guard for proof in self.proofs for guard in proof.guards))

    @property
    def ranks(self) -> tuple[int, int] | None:
        """Least and greatest rank of the variable of greatest rank, over the signatures."""
        highest = [max(proof.ranks.values()) for proof in self.proofs if proof.ranks]
        return (min(highest), max(highest)) if highest else None

    @property
    def obligations(self) -> int:
        """Of all signatures together."""
        return sum(proof.obligations for proof in self.proofs)


@dataclass(frozen=True)
class Counterexample:
    """Sizes and tensors at which the sides differ, with the element where they do (as text)."""

    sizes: dict[str, str]
    tensors: dict[str, str]
    place: str
    left: str
    right: str


@dataclass(frozen=True)
class Candidate:
    """An equation that the generator conjectured and the prover did not prove: "Refuted" or "Unknown"."""

    equation: str
    left: str
    right: str
    outputs: int
    signature: str
    verdict: str
    reason: str
    counterexample: Counterexample | None


@dataclass(frozen=True)
class Totals:
    """Rules, signatures and obligations of one family."""

    family: str
    rules: int
    two_outputs: int
    signatures: int
    guarded: int  # rules with a guard at any signature
    obligations: int


@dataclass(frozen=True)
class Report:
    """Everything on the page. `stages` are the generator's counts: family (and "total") -> stage -> how many."""

    program: str
    kernel: str
    solvers: tuple[str, ...]
    rules: tuple[RuleEntry, ...]
    candidates: tuple[Candidate, ...]
    totals: tuple[Totals, ...]
    stages: dict[str, dict[str, int]] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), indent=1) + "\n"
