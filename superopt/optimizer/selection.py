"""Selection of the result: the first candidate that is accepted, as long as the run has time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import onnx

from superopt.ir.trace import Trace
from superopt.onnx_io import Model
from superopt.optimizer.bodies import RewrittenBodies
from superopt.optimizer.candidate_check import CandidateCheck, CheckResult
from superopt.optimizer.candidate_parts import foldable_part, without_operator
from superopt.optimizer.candidates import ModelCandidate, candidates, clean_ups
from superopt.optimizer.model_search import FoundRewrites
from superopt.optimizer.result import Difference, Latency, Refusal

__all__ = ["Selection", "select"]


@dataclass
class Selection:
    """The selected model. `proto` is None if the original is kept, for the stated `reason`.

    `found` is the result of the search. `traces` are the applied passes, and `graphs` the graph before each pass.
    `refused` are the candidates that failed a check. If the original is kept, `difference` and `latency` are those of
    the first refused candidate.
    """

    reason: str
    found: FoundRewrites = field(default_factory=FoundRewrites)
    proto: onnx.ModelProto | None = None
    traces: tuple[Trace, ...] = ()
    graphs: list[Model] = field(default_factory=list)
    difference: Difference | None = None
    latency: Latency | None = None
    refused: list[Refusal] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def select(
    check: CandidateCheck,
    found: FoundRewrites,
    bodies: RewrittenBodies,
    notices: Sequence[str] = (),
    keep: Callable[[Selection | None], None] = lambda _: None,
) -> Selection:
    """Select among the candidates of a search, combined with the rewritten `bodies`; else the original is kept.

    Candidates are tried in order as long as the run has time, at least one, and then those that only clean up. A
    candidate is first compared and, if that takes little of the run's time, estimated; then it is measured to be
    accepted. Each try makes the next one stricter (see `speed_check`).

    `notices` are about the run. `keep` receives the selection to take if the run were stopped now, each time that it
    changes: a candidate that has passed and was not refused later, or None.
    """
    selector = _Selector(check, found, notices, keep)
    pace, simplified = check.context.pace, bool(check.model.simplified_nodes)
    for number, candidate in enumerate(candidates(found, bodies)):
        if number and not pace.has_time_for_another:
            break
        if (best := selector.accepted(candidate)) is not None:
            return selector.taken(best)
    for candidate in clean_ups(found, bodies, simplified):
        if selector.refused and not pace.has_time_for_another:
            break
        if (best := selector.accepted(candidate)) is not None:
            return selector.taken(best)
    if selector.refused:
        return selector.kept(selector.refused[0].reason)
    when = "" if found.complete else " in its time"
    return selector.kept(f"the search found nothing that the cost model prefers{when}")


@dataclass
class _Passed:
    """A candidate that passed its checks, and the findings about it."""

    candidate: ModelCandidate
    result: CheckResult


class _Selector:
    """Checks candidates, and records the findings about refused ones."""

    def __init__(
        self,
        check: CandidateCheck,
        found: FoundRewrites,
        notices: Sequence[str],
        keep: Callable[[Selection | None], None],
    ) -> None:
        self.check, self.found, self.notices, self._keep = check, found, notices, keep
        self._kept: _Passed | None = None
        self.refused: list[Refusal] = []
        self.difference: Difference | None = None  # of the first refused candidate, the same in a repeated run
        self.latency: Latency | None = None

    def accepted(self, candidate: ModelCandidate) -> _Passed | None:
        """Check `candidate` and measure it anew; return it, or None if it is refused."""
        one = self._passed(candidate)
        if one is None:
            return None
        self._hand_over(one)
        self.check.accept(one.candidate, one.result)
        if self._is_ok(one.candidate, one.result):
            return one
        self._hand_over(None)
        return None

    def _passed(self, candidate: ModelCandidate) -> _Passed | None:
        """Check `candidate`; return it, or None if it is refused.

        Of a candidate with an operator that cannot be written, or with weights that take too long to fold, the rest is
        checked instead.
        """
        result = self.check.check(candidate)
        while not self._is_ok(candidate, result):
            rest = self._rest(candidate, result)
            if rest is None or not rest.traces:
                return None
            candidate, result = rest, self.check.check(rest)
        return _Passed(candidate, result)

    def _rest(self, candidate: ModelCandidate, result: CheckResult) -> ModelCandidate | None:
        """Return the part of a refused candidate to check instead, or None."""
        outputs = self.check.model.outputs
        if result.unwritable is not None:
            return without_operator(candidate, outputs, result.unwritable)
        if not result.is_foldable:
            return foldable_part(candidate, outputs, self.found.gains, self.check.folding.is_affordable)
        return None

    def _hand_over(self, one: _Passed | None) -> None:
        """Hand over `one` as the selection to take if the run were stopped now, if its estimate is surely a gain.

        A run that times nothing ends with the first candidate that passes.
        """
        if self.check.speed is None:
            return
        estimate = None if one is None else one.result.latency
        one = one if estimate is not None and estimate.low > 1 else None
        if one is not self._kept:
            self._kept = one
            self._keep(None if one is None else self.taken(one))

    def _is_ok(self, candidate: ModelCandidate, result: CheckResult) -> bool:
        if result.problem is None:
            return True
        if not self.refused:
            self.difference, self.latency = result.difference, result.latency
        self.refused.append(Refusal(candidate.name, result.problem))
        return False

    def taken(self, best: _Passed) -> Selection:
        """Return the selection of a candidate that has passed."""
        candidate, result = best.candidate, best.result
        return Selection(
            reason=candidate.name + self.check.unchecked,
            found=self.found,
            proto=result.proto or self.check.make(candidate),
            traces=(*candidate.traces, *candidate.bodies.traces),
            graphs=result.graphs,
            difference=result.difference,
            latency=result.latency,
            refused=self.refused,
            notices=list(self.notices),
        )

    def kept(self, reason: str) -> Selection:
        """Return the selection of the original."""
        return Selection(
            reason,
            self.found,
            difference=self.difference,
            latency=self.latency,
            refused=self.refused,
            notices=list(self.notices),
        )
