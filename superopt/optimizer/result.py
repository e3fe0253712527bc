"""Result of one run of `optimize`, as data: printed as a table by the command line, written as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace

import onnx

__all__ = [
    "MEAN_SAVINGS",
    "SCHEMA_VERSION",
    "Difference",
    "InputAccuracy",
    "Latency",
    "LatencyAtSize",
    "OperatorTime",
    "Refusal",
    "ReplaySummary",
    "Result",
    "RuleAttempts",
    "RuleUse",
    "gain_is_predicted",
]

SCHEMA_VERSION = 2
MEAN_SAVINGS = " (savings of rules are means over all)"  # end of `cost_source`, if it names several devices
_LEAST_PREDICTED = 0.0005  # a gain that shows in three digits


def gain_is_predicted(before: float | None, after: float | None) -> bool:
    """Return True if the predicted time `after` is less than `before`, by more than rounding hides."""
    return before is not None and after is not None and before > (1 + _LEAST_PREDICTED) * after


@dataclass(frozen=True)
class RuleUse:
    """Uses of one rule: its id, its sides, the number of applications, and the names of the nodes where it applied.

    The sides are those that were applied, from left to right; the rule with this id in the rule files may have them in
    the other direction, operands in another order, or fewer operands. An application to terms that another rule made
    counts at the model's nodes where that rule was applied. `made` are the names of the result's nodes that the rule
    made and no later rule has replaced.
    """

    id: str
    rule: str = field(init=False)  # the equation
    left: str
    right: str
    count: int
    nodes: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", f"{self.left} = {self.right}")


@dataclass(frozen=True)
class OperatorTime:
    """Time of all operators of one type in the original and in the result, by the runtime's own profiler.

    Numbers of operators and milliseconds are those of the graph that the runtime has made of each model.
    """

    operator: str
    count_before: int
    count_after: int
    before_ms: float
    after_ms: float


@dataclass(frozen=True)
class RuleAttempts:
    """Counts for one rule in the search.

    `matched`: matches that were priced. `tried`: graphs that were made. `unproven`: matches that no proof allows.
    `used`: uses in the search's result. `saved_ms`: milliseconds that these uses save by the cost model.
    """

    id: str
    rule: str
    matched: int
    tried: int
    unproven: int
    used: int
    saved_ms: float


@dataclass(frozen=True)
class LatencyAtSize:
    """Latency, as in `Latency`, at one size: `shapes` are the shapes of all inputs."""

    shapes: dict[str, tuple[int, ...]]
    before_ms: float
    after_ms: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Latency:
    """Measured latency of one run of the original and of the result, interleaved, in milliseconds.

    `ratio` is before / after: above 1 the result is faster; `low` to `high` is its 95% confidence interval. These
    numbers, `before_ms` and `after_ms` are by `clock`: "cpu" is the CPU time of the process (at one thread), "wall" is
    wall time, which is always given as well. `remembered`: measured by an earlier run of the same two models. If the
    model was measured at several sizes, `sizes`, then all these numbers are geometric means over the sizes.
    `few_pairs` is the number of pairs of sessions if there was no time for the usual number, else None.
    """

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
    sizes: list[LatencyAtSize] = field(default_factory=list)
    few_pairs: int | None = None


@dataclass(frozen=True)
class InputAccuracy:
    """Largest errors of the original's and the result's real outputs against float64, on one set of inputs.

    Errors are relative to the output's largest magnitude; they are None if there is no evaluation in float64, for the
    reason `no_reference`. `kind` names the set of inputs (`superopt.optimizer.input_sets`).
    """

    kind: str
    original: float | None
    result: float | None
    no_reference: str | None = None


@dataclass(frozen=True)
class Difference:
    """Largest difference of any output on `inputs` sets of inputs.

    `relative` is relative to the output's largest magnitude, and `tolerance` is its bound where outputs were compared
    with each other, or the bound of the error where they were compared with float64 (`accuracy`, one for each set).
    `own_spread` is the relative difference of the original from itself between ONNX Runtime's optimization levels.
    `remembered`: compared by an earlier run of the same two models on the same inputs.
    """

    absolute: float
    relative: float
    tolerance: float
    own_spread: float
    inputs: int
    accuracy: list[InputAccuracy] = field(default_factory=list)
    remembered: bool = False

    def errors(self) -> list[tuple[str, float, float]]:
        """Return the kinds of inputs with the largest errors of the original and of the result against float64."""
        found: dict[str, tuple[float, float]] = {}
        for one in self.accuracy:
            if one.original is not None and one.result is not None:
                own, result = found.get(one.kind, (0.0, 0.0))
                found[one.kind] = (max(own, one.original), max(result, one.result))
        return [(kind, own, result) for kind, (own, result) in found.items()]

    def without_reference(self) -> dict[str, list[str]]:
        """Return the reasons why there is no evaluation in float64, with the kinds of inputs that lack it."""
        found: dict[str, list[str]] = {}
        for one in self.accuracy:
            if one.no_reference is not None:
                found.setdefault(one.no_reference, []).append(one.kind)
        return found


@dataclass(frozen=True)
class ReplaySummary:
    """Counts of the kernel's checks.

    `rules` and `signatures`: distinct ones proven. `steps`: steps replayed, counted once for a region that occurs
    several times. `places`: occurrences of all regions.
    """

    rules: int
    signatures: int
    steps: int
    places: int


@dataclass(frozen=True)
class Refusal:
    """A candidate that failed a check, and the reason."""

    candidate: str
    reason: str


@dataclass
class Result:
    """Result of one run of `optimize`.

    `out` is the written file, and `out_weights` the file beside it with its weights, None if they are inside.
    `changed` is False if the original was kept. `reason` says why, or names the candidate that was taken. `numerics`
    is the loosest class of rules that was allowed. `error_factor`: the result's bound on rounding errors is proven to
    be at most so many times the original's (None: no such proof). `operator_times` are measured for a report only
    (`operator_times.py`). `seconds` is the wall time of each phase. `proto` is the resulting model in memory; it is not
    part of the JSON. More than 2 GB of weights stay in files, whose names are relative to the root of the file system.
    """

    model: str
    out: str | None
    changed: bool
    reason: str
    provider: str
    threads: int
    seed: int
    operators_before: dict[str, int]
    operators_after: dict[str, int]
    weight_bytes_before: int | None = None
    weight_bytes_after: int | None = None
    numerics: str = "normwise"
    cost_before_ms: float | None = None
    cost_after_ms: float | None = None
    cost_source: str = ""
    latency: Latency | None = None
    difference: Difference | None = None
    operator_times: list[OperatorTime] = field(default_factory=list)
    rules: list[RuleUse] = field(default_factory=list)
    attempts: list[RuleAttempts] = field(default_factory=list)
    proof: ReplaySummary | None = None
    error_factor: float | None = None
    refused: list[Refusal] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    out_weights: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    proto: onnx.ModelProto | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        from superopt.optimizer.result_text import result_text

        return "\n".join((result_text(self), *(f"notice: {notice}" for notice in self.notices)))

    def _repr_html_(self) -> str:
        """Return the result as a notebook shows it."""
        from superopt.optimizer.result_text import result_html

        return result_html(self)

    def to_json(self) -> str:
        """Return the result as one JSON object; a number that is not finite is null."""
        fields = asdict(replace(self, proto=None))
        del fields["proto"]
        return json.dumps(_finite(fields), indent=2, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
