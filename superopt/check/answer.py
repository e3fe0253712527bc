"""The answer of `superopt check` as data: printed as text by the command line, written as JSON, shown as a page."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = [
    "DIFFERENT",
    "EQUIVALENT",
    "SCHEMA_VERSION",
    "UNKNOWN",
    "Answer",
    "Correspondence",
    "Difference",
    "PartingPair",
    "Unproven",
]

SCHEMA_VERSION = 1
EQUIVALENT, DIFFERENT, UNKNOWN = "Equivalent", "Different", "Unknown"


@dataclass(frozen=True)
class Correspondence:
    """A tensor of A and one of B that are proven equal, by name, with the type in A.

    `by` says how (`superopt.check.equality.Match`); `error` bounds the relative error of folded weights; 0 means
    bit for bit. `is_rewritten` is True if one of the tensors is in no file: rules have rewritten its model.
    """

    left: str
    right: str
    type: str
    by: str
    error: float = 0.0
    is_rewritten: bool = False


@dataclass(frozen=True)
class Unproven:
    """A tensor of A and one of B that were not proven equal, and the reason in one line.

    `left_graph` and `right_graph` are what computes them from tensors that are proven equal, in the notation of rules.
    They are empty if that is too large to show.
    """

    left: str
    right: str
    reason: str
    left_graph: str = ""
    right_graph: str = ""


@dataclass(frozen=True)
class Difference:
    """An input on which the models differ.

    `inputs` says what kind of input it is, `shapes` are its shapes, `file` is where it was saved (None: nowhere). The
    models differ in `output` at `index`, where they give `left` and `right`; these are None, and `output` may be empty,
    if B does not run on the input or gives another shape. `relative` is the difference relative to the largest element
    around, `rounding` what roundings explain of it (None: values that are not finite or not real). With `is_faint`,
    single values of two runs differ by roundings too: only all elements together, or float64, show the difference.
    """

    problem: str
    inputs: str
    shapes: dict[str, tuple[int, ...]]
    output: str = ""
    index: tuple[int, ...] = ()
    left: Any = None
    right: Any = None
    relative: float | None = None
    rounding: float | None = None
    file: str | None = None
    is_faint: bool = False


@dataclass(frozen=True)
class PartingPair:
    """The first pair of tensors where the models part: computed from the `agreeing` tensors of A, with other values."""

    left: str
    right: str
    left_operator: str
    right_operator: str
    agreeing: list[str] = field(default_factory=list)


@dataclass
class Answer:
    """The answer on models A (`left`) and B (`right`).

    `verdict` is EQUIVALENT, DIFFERENT or UNKNOWN, and `reason` says why in one line. `interface` has a line for each
    difference of inputs and outputs. `outputs` says for each output if it is proven equal. `tried` counts the inputs on
    which both models were run. `certificate` is the file to which the proof was written. `not_written` says in one line
    each why files that were asked for are missing. `seconds` is the wall time of each phase.
    """

    left: str
    right: str
    verdict: str = UNKNOWN
    reason: str = ""
    interface: list[str] = field(default_factory=list)
    outputs: dict[str, bool] = field(default_factory=dict)
    correspondences: list[Correspondence] = field(default_factory=list)
    unproven: list[Unproven] = field(default_factory=list)
    difference: Difference | None = None
    parting: PartingPair | None = None
    tried: int = 0
    certificate: str | None = None
    not_written: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seed: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    @property
    def error(self) -> float:
        """The largest bound on the relative error of folded weights, 0 if all are equal bit for bit."""
        return max((one.error for one in self.correspondences), default=0.0)

    def __str__(self) -> str:
        from superopt.check.answer_text import answer_text

        return answer_text(self)

    def to_json(self) -> str:
        """Return the answer as one JSON object; a number that is not finite is a string."""
        return json.dumps(_plain(asdict(self)), indent=2, allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
