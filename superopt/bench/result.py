"""What a benchmark found out: data, its JSON, and what is to be said of it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["SCHEMA_VERSION", "Benchmark", "Contest", "Row", "Speed"]

SCHEMA_VERSION = 1
_LEAST = 0.98  # a result whose interval lies below this is slower than the original


@dataclass(frozen=True)
class Speed:
    """Milliseconds a run (the median over heats, of each the least) within `low_ms`..`high_ms`, and speed relative to
    the original in ONNX Runtime alone (above 1: faster) within `low`..`high`; both with about 95% confidence. `rounds`
    is how often it had its turns."""

    ms: float
    low_ms: float
    high_ms: float
    ratio: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Row:
    """One contestant on one model. `status` is `ok`, `wrong` (its outputs differ by more than the tolerance) or
    `failed` (it crashed, hung, or wrote what does not load); only who is right is timed. `seconds` and `peak_mb` (MiB)
    are those of optimizing, `relative` is the largest difference of outputs relative to their magnitude."""

    contestant: str
    kind: str
    status: str = "ok"
    note: str = ""
    operators: int | None = None
    seconds: float | None = None
    peak_mb: float | None = None
    relative: float | None = None
    tolerance: float | None = None
    speeds: dict[str, Speed] = field(default_factory=dict)


@dataclass(frozen=True)
class Contest:
    """All contestants on one model; `problem` says why there are none."""

    model: str
    rows: list[Row] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    problem: str | None = None


@dataclass(frozen=True)
class Benchmark:
    """A run. `clocks` are what was measured, by the names that speeds go by; `absent` are peers that took no part, and
    why; `machine` and `versions` are what the figures depend on, `options` how the run is repeated."""

    clocks: dict[str, str]
    contests: list[Contest]
    absent: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def contestants(self) -> dict[str, str]:
        """Names and kinds, in the order in which they took part."""
        return {row.contestant: row.kind for contest in self.contests for row in contest.rows}

    def mean(self, contestant: str, clock: str) -> tuple[float, int] | None:
        """Geometric mean of the speeds of `contestant` over the models on which it has one, and their number."""
        rows = [row for contest in self.contests for row in contest.rows if row.contestant == contestant]
        logs = [math.log(row.speeds[clock].ratio) for row in rows if clock in row.speeds]
        return (math.exp(math.fsum(logs) / len(logs)), len(logs)) if logs else None

    def losses(self) -> list[str]:
        """What of ours is wrong, failed, or slower than the original for sure."""
        found: list[str] = []
        for contest in self.contests:
            for row in contest.rows:
                if row.kind == "ours" and row.status != "ok":
                    found.append(f"{contest.model}: {row.status}: {row.note}")
                elif row.kind == "ours":
                    slow = [(clock, s) for clock, s in row.speeds.items() if s.high < _LEAST]
                    found += [f"{contest.model}: slower by {self.clocks[c]}: {s.ratio:.3f}" for c, s in slow]
        return found

    def to_json(self) -> str:
        """One JSON object; the means are in it for readers without a calculator."""
        means = {
            name: {clock: mean[0] for clock in self.clocks if (mean := self.mean(name, clock)) is not None}
            for name in self.contestants
        }
        content = {"schema_version": SCHEMA_VERSION, **asdict(self), "geometric_means": means, "losses": self.losses()}
        return json.dumps(content, indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Benchmark:
        """The inverse of `to_json`."""
        content = json.loads(text)
        for derived in ("schema_version", "geometric_means", "losses"):
            del content[derived]
        content["contests"] = [_contest(**one) for one in content["contests"]]
        return Benchmark(**content)


def _contest(*, rows: list[dict[str, Any]], **rest: Any) -> Contest:
    return Contest(rows=[_row(**row) for row in rows], **rest)


def _row(*, speeds: dict[str, dict[str, Any]], **rest: Any) -> Row:
    return Row(speeds={clock: Speed(**speed) for clock, speed in speeds.items()}, **rest)
