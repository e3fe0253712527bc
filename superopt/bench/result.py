"""Figures of a benchmark, and their JSON."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["SCHEMA_VERSION", "Benchmark", "Contest", "Row", "EngineSpeed"]

SCHEMA_VERSION = 1
_MIN_INTERVAL_HIGH = 0.98  # a result whose interval is below this bound is slower than the original


@dataclass(frozen=True)
class EngineSpeed:
    """Time of one run, and speed relative to the original in ONNX Runtime alone (above 1: faster).

    `ms` is the median over heats of each heat's least milliseconds. `low_ms`..`high_ms` and `low`..`high` are intervals
    of about 95% confidence. `rounds` is the number of turns that the contestant had.
    """

    ms: float
    low_ms: float
    high_ms: float
    ratio: float
    low: float
    high: float
    rounds: int


@dataclass(frozen=True)
class Row:
    """One contestant on one model.

    `status` is `ok`, `wrong` (outputs differ by more than the tolerance) or `failed` (it crashed, hung, or wrote a
    model that does not load); only `ok` is timed. `seconds` and `peak_mb` (MiB) are of optimizing. `relative` is the
    largest difference of outputs relative to their magnitude.
    """

    contestant: str
    kind: str
    status: str = "ok"
    note: str = ""
    operators: int | None = None
    seconds: float | None = None
    peak_mb: float | None = None
    relative: float | None = None
    tolerance: float | None = None
    speeds: dict[str, EngineSpeed] = field(default_factory=dict)


@dataclass(frozen=True)
class Contest:
    """All contestants on one model; `problem` is the reason if there are none."""

    model: str
    rows: list[Row] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    problem: str | None = None

    def fastest(self, clock: str) -> Row | None:
        """Return the row with the shortest time by `clock` among those surely faster than the baseline, or None."""
        timed = (row for row in self.rows if clock in row.speeds and row.kind not in ("baseline", "control"))
        rows = [row for row in timed if row.speeds[clock].low > 1]
        return min(rows, key=lambda row: row.speeds[clock].ms, default=None)


@dataclass(frozen=True)
class Benchmark:
    """One run of the benchmark.

    `clocks` maps the names used in `speeds` to titles; `absent` maps peers that took no part to reasons. The figures
    depend on `machine` and `versions`; `options` repeat the run.
    """

    clocks: dict[str, str]
    contests: list[Contest]
    absent: dict[str, str] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def contestants(self) -> dict[str, str]:
        """Names and kinds of the contestants, in order."""
        return {row.contestant: row.kind for contest in self.contests for row in contest.rows}

    def mean(self, contestant: str, clock: str) -> tuple[float, int] | None:
        """Return the geometric mean speed of `contestant` and the number of models on which it was timed."""
        logs = [math.log(ratio) for ratio in self._ratios(contestant, clock)]
        return (math.exp(math.fsum(logs) / len(logs)), len(logs)) if logs else None

    def median(self, contestant: str, clock: str) -> float | None:
        """Return the median speed of `contestant` over the models on which it was timed."""
        ratios = self._ratios(contestant, clock)
        return statistics.median(ratios) if ratios else None

    def _ratios(self, contestant: str, clock: str) -> list[float]:
        rows = [row for contest in self.contests for row in contest.rows if row.contestant == contestant]
        return [row.speeds[clock].ratio for row in rows if clock in row.speeds]

    def losses(self) -> list[str]:
        """Return one line for each result of ours that is wrong, failed, or surely slower than the original."""
        found: list[str] = []
        for contest in self.contests:
            for row in contest.rows:
                if row.kind == "ours" and row.status != "ok":
                    found.append(f"{contest.model}: {row.status}: {row.note}")
                elif row.kind == "ours":
                    slow = [(clock, s) for clock, s in row.speeds.items() if s.high < _MIN_INTERVAL_HIGH]
                    found += [f"{contest.model}: slower by {self.clocks[c]}: {s.ratio:.3f}" for c, s in slow]
        return found

    def to_json(self) -> str:
        """Return the benchmark as one JSON object, geometric means included."""
        means = {
            name: {clock: mean[0] for clock in self.clocks if (mean := self.mean(name, clock)) is not None}
            for name in self.contestants
        }
        content = {"schema_version": SCHEMA_VERSION, **asdict(self), "geometric_means": means, "losses": self.losses()}
        return json.dumps(content, indent=1, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> Benchmark:
        """Read a benchmark that `to_json` wrote."""
        content = json.loads(text)
        for derived in ("schema_version", "geometric_means", "losses"):
            del content[derived]
        content["contests"] = [_contest(**one) for one in content["contests"]]
        return Benchmark(**content)


def _contest(*, rows: list[dict[str, Any]], **rest: Any) -> Contest:
    return Contest(rows=[_row(**row) for row in rows], **rest)


def _row(*, speeds: dict[str, dict[str, Any]], **rest: Any) -> Row:
    return Row(speeds={clock: EngineSpeed(**speed) for clock, speed in speeds.items()}, **rest)
