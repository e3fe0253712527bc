"""What the report says, without how it looks. `to_json` is versioned: a change of meaning raises the version."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

__all__ = [
    "CASES", "SCHEMA_VERSION", "SLOW_CASES", "Candidate", "Confirmation", "Counterexample", "Proof", "Report",
    "RuleEntry", "Tested", "Totals",
]  # fmt: skip

SCHEMA_VERSION = 2

# Random cases for each operator's definition: in every run of the test suite, and more in its slow part.
CASES, SLOW_CASES = 15, 200


@dataclass(frozen=True)
class Proof:
    """A rule at one signature: what is literal there, and under which conditions it is proven.

    `guards` are those of the `conditions` that the left side's typing does not imply; `weakest` says whether no weaker
    ones would do (None: not asked). `error` is how many roundings the sides may differ by (`verify.verdict.Proved`),
    None where the class of `numerics` is exact. `defined_left`: the left side's divisions, roots and logarithms are
    assumed to be defined.
    """

    signature: str
    ranks: dict[str, int]
    conditions: tuple[str, ...]
    guards: tuple[str, ...]
    obligations: int
    numerics: str
    error: str | None
    defined_left: bool
    weakest: bool | None = None


@dataclass(frozen=True)
class RuleEntry:
    """One rule. `numerics` is the loosest class at any signature, `text` the hash of its line, `certificate` that of
    its certificate, `seconds` the prover's time (None: not written down)."""

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
    numerics: str
    text: str
    certificate: str
    kernel: str
    solver: str
    seconds: float | None
    proofs: tuple[Proof, ...]

    @property
    def guards(self) -> tuple[str, ...]:
        """Guards of all signatures, each once."""
        return tuple(dict.fromkeys(guard for proof in self.proofs for guard in proof.guards))

    @property
    def errors(self) -> tuple[str, ...]:
        """Bounds of all signatures, in roundings, each once."""
        return tuple(dict.fromkeys(proof.error for proof in self.proofs if proof.error is not None))

    @property
    def weakest(self) -> bool | None:
        """Whether no weaker guards would do at any signature; None where that was not asked."""
        known = {proof.weakest for proof in self.proofs if proof.guards}
        return None if None in known or not known else known == {True}

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
class Confirmation:
    """What ONNX Runtime said of a counterexample: the outcome, what it computes there, or why it computes nothing."""

    outcome: str
    left: str
    right: str
    reason: str


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
    confirmation: Confirmation | None = None


@dataclass(frozen=True)
class Totals:
    """Rules, signatures, obligations and the prover's seconds of one family."""

    family: str
    rules: int
    two_outputs: int
    signatures: int
    guarded: int  # rules with a guard at any signature
    obligations: int
    seconds: float


@dataclass(frozen=True)
class Tested:
    """How the definitions were tested: operators, and random cases for each, in every run and in the slow part."""

    operators: int
    cases: int = CASES
    slow_cases: int = SLOW_CASES


@dataclass(frozen=True)
class Report:
    """Everything on the page. `classes` counts the rules of each class of numerics. `stages` are the generator's
    counts: family (and "total") -> stage -> how many."""

    program: str
    kernel: str
    solvers: tuple[str, ...]
    rules: tuple[RuleEntry, ...]
    candidates: tuple[Candidate, ...]
    totals: tuple[Totals, ...]
    classes: dict[str, int]
    tested: Tested
    stages: dict[str, dict[str, int]] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self), indent=1) + "\n"
