"""Data of the verification report, without its presentation. A change of meaning raises the JSON's version."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

__all__ = [
    "CASES", "SCHEMA_VERSION", "SLOW_CASES", "Proof", "RefusedCandidate", "Report", "RuleEntry", "ShownConfirmation",
    "ShownCounterexample", "Tested", "Totals",
]  # fmt: skip

SCHEMA_VERSION = 2

# Random cases per operator definition: in every run of the tests, and more in the slow tests.
CASES, SLOW_CASES = 15, 100


@dataclass(frozen=True)
class Proof:
    """The proof of a rule at one signature, with its conditions.

    `guards` are the `conditions` that the left side's typing does not imply. `weakest` is True if no weaker guards
    would do (None: not asked). `error` counts the roundings by which the sides may differ (`verify.verdict.Proved`); it
    is None in the class exact. `defined_left`: the proof assumes that the left side's divisions, roots and logarithms
    are defined.
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
    """One rule: its equation, facts, hashes and proofs.

    `numerics` is the loosest class at any signature. `text` is the hash of the rule's line, `certificate` the hash of
    its certificate. `seconds` is the prover's time (None: not recorded).
    """

    id: str
    family: str
    line: int
    equation: str
    left: str
    right: str
    outputs: int
    operators: tuple[str, ...]
    variables: tuple[str, ...]
    backwards: bool  # True if the rule also applies right to left
    numerics: str
    text: str
    certificate: str
    kernel: str
    solver: str
    seconds: float | None
    proofs: tuple[Proof, ...]

    @property
    def guards(self) -> tuple[str, ...]:
        """The guards of all signatures, each once."""
        return tuple(dict.fromkeys(guard for proof in self.proofs for guard in proof.guards))

    @property
    def errors(self) -> tuple[str, ...]:
        """The error bounds of all signatures, in roundings, each once."""
        return tuple(dict.fromkeys(proof.error for proof in self.proofs if proof.error is not None))

    @property
    def weakest(self) -> bool | None:
        """True if no weaker guards would do at any signature; None if that was not asked."""
        known = {proof.weakest for proof in self.proofs if proof.guards}
        return None if None in known or not known else known == {True}

    @property
    def ranks(self) -> tuple[int, int] | None:
        """The least and greatest rank over the signatures, of the variable with the highest rank."""
        highest = [max(proof.ranks.values()) for proof in self.proofs if proof.ranks]
        return (min(highest), max(highest)) if highest else None

    @property
    def obligations(self) -> int:
        """The number of obligations of all signatures together."""
        return sum(proof.obligations for proof in self.proofs)


@dataclass(frozen=True)
class ShownCounterexample:
    """Sizes and tensors at which the sides differ, and the element where they do, as text."""

    sizes: dict[str, str]
    tensors: dict[str, str]
    place: str
    left: str
    right: str


@dataclass(frozen=True)
class ShownConfirmation:
    """The result of running a counterexample in ONNX Runtime: outcome, both values, or the reason for no result."""

    outcome: str
    left: str
    right: str
    reason: str


@dataclass(frozen=True)
class RefusedCandidate:
    """A conjecture of the generator that was not proven: its verdict is "Refuted" or "Unknown"."""

    equation: str
    left: str
    right: str
    outputs: int
    signature: str
    verdict: str
    reason: str
    counterexample: ShownCounterexample | None
    confirmation: ShownConfirmation | None = None


@dataclass(frozen=True)
class Totals:
    """Counts of one family: rules, signatures, obligations, and the prover's seconds."""

    family: str
    rules: int
    two_outputs: int
    signatures: int
    guarded: int  # rules with a guard at any signature
    obligations: int
    seconds: float


@dataclass(frozen=True)
class Tested:
    """Counts of tested definitions: operators, and random cases per operator in every run and in the slow tests."""

    operators: int
    cases: int = CASES
    slow_cases: int = SLOW_CASES


@dataclass(frozen=True)
class Report:
    """Everything on the page.

    `classes` counts the rules of each class of numerics. `stages` holds the generator's counts: family (and "total") ->
    stage -> number.
    """

    program: str
    kernel: str
    solvers: tuple[str, ...]
    rules: tuple[RuleEntry, ...]
    candidates: tuple[RefusedCandidate, ...]
    totals: tuple[Totals, ...]
    classes: dict[str, int]
    tested: Tested
    stages: dict[str, dict[str, int]] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(asdict(self), indent=1) + "\n"
