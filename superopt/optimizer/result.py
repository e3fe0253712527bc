"""What one optimization did and found out; printed as a table, written as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace

import onnx

__all__ = ["SCHEMA_VERSION", "Difference", "Latency", "Proof", "Refusal", "Result", "RuleAttempts", "RuleUse"]

SCHEMA_VERSION = 2


@dataclass(frozen=True)
class RuleUse:
    """A rule in the notation, how often it was applied, and at which nodes of the model; what another rule had made
    counts as the node at which that one was applied."""

    id: str
    rule: str
    count: int
    nodes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RuleAttempts:
    """What became of a rule in the search: moves that were priced, graphs that were made, moves that no proof allows;
    uses in what the search came back with, and the milliseconds that they save by the cost model."""

    id: str
    rule: str
    matched: int
    tried: int
    unproven: int
    used: int
    saved_ms: float


@dataclass(frozen=True)
class Latency:
    """Median milliseconds a run, measured interleaved. `ratio` above 1: faster, within `low`..`high` with about 95%
    confidence. By `clock`: CPU time of the process (one thread), or wall time, which is given as well. `remembered`: by
    an earlier run, of the same two files."""

    before_ms: float
    after_ms: float
    ratio: float
    low: float
    high: float
    wall_before_ms: float
    wall_after_ms: float
    rounds: int
    clock: str
    remembered: bool = False


@dataclass(frozen=True)
class Difference:
    """Largest difference of any output on `inputs` random inputs: absolute, relative to the output's magnitude, the
    tolerance for the latter, and the original's own relative spread between optimization levels."""

    absolute: float
    relative: float
    tolerance: float
    own_spread: float
    inputs: int


@dataclass(frozen=True)
class Proof:
    """What the kernel checked: distinct rules and signatures proven, steps replayed (each counted once for a region
    that occurs several times), and places where their regions stand."""

    rules: int
    signatures: int
    steps: int
    places: int


@dataclass(frozen=True)
class Refusal:
    """A candidate that was not written, and why."""

    candidate: str
    reason: str


@dataclass
class Result:
    """One run of `optimize`. `changed` is false where the original's graph was kept; `reason` says why (or which
    candidate was taken). `numerics` is the loosest class of rules that was allowed. `proto` is the model that was
    written, in memory (not part of the JSON)."""

    model: str
    out: str | None
    changed: bool
    reason: str
    provider: str
    threads: int
    seed: int
    operators_before: dict[str, int]
    operators_after: dict[str, int]
    numerics: str = "real-only"
    cost_before_ms: float | None = None
    cost_after_ms: float | None = None
    cost_source: str = ""
    latency: Latency | None = None
    difference: Difference | None = None
    rules: list[RuleUse] = field(default_factory=list)
    attempts: list[RuleAttempts] = field(default_factory=list)
    proof: Proof | None = None
    refused: list[Refusal] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    proto: onnx.ModelProto | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> str:
        """The result as one JSON object; a number that is not finite is null."""
        fields = asdict(replace(self, proto=None))
        del fields["proto"]
        return json.dumps(_finite(fields), indent=2, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
