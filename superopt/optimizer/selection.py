"""Selection of the result: the fastest complete candidate that is accepted, else the first part that is accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import onnx

from superopt.ir.trace import Trace
from superopt.onnx_io import Model
from superopt.optimizer.bodies import RewrittenBodies
from superopt.optimizer.candidate_check import CandidateCheck, CheckResult
from superopt.optimizer.candidate_parts import foldable_part, without_operator
from superopt.optimizer.candidates import ModelCandidate, candidates
from superopt.optimizer.model_search import FoundRewrites
from superopt.optimizer.result import Difference, Latency, Refusal
from superopt.optimizer.strategies import Strategy

__all__ = ["Selection", "select"]

# Parts of a result are tried until this many measurements were made; one to accept a part counts as two or more.
_MAX_MEASUREMENTS = 8
# Parts are also tried no longer than this multiple of `measure_s`: sessions of large models take long to open.
_MAX_PARTS_FACTOR = 6
# Complete results of the other strategies are tried no longer than this multiple of `measure_s`.
_MAX_STRATEGIES_FACTOR = 12


@dataclass
class Selection:
    """The selected model. `proto` is None if the original is kept, for the stated `reason`.

    `found` is the search that found the result (the first search, if the original is kept). `traces` are the applied
    passes, and `graphs` the graph before each pass. `refused` are the candidates that failed a check. If the original
    is kept, `difference` and `latency` are those of the first refused candidate.
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
    searches: Mapping[Strategy, FoundRewrites],
    bodies: RewrittenBodies,
    notices: Sequence[str] = (),
    keep: Callable[[Selection | None], None] = lambda _: None,
) -> tuple[Selection, Strategy | None]:
    """Select among the results of `searches` (not empty), each combined with the rewritten `bodies`.

    Complete candidates that pass their checks are tried in the order of their estimated speed, and the first one that
    is accepted is selected. If there is none, parts of the first search's result are tried in order; else the original
    is kept. Return also the one strategy with which a repeated run has the same result, or None if it needs all: each
    try makes the next one stricter (see `speed_check`).

    `notices` are about the run. `keep` receives the selection to take if the run were stopped now, each time that it
    changes: the fastest candidate that has passed and was not refused later, or None.
    """
    selector = _Selector(check, bodies, searches, notices, keep)
    (first, found), *others = searches.items()
    parts = selector.candidates(first, found)
    whole = next(parts, None)
    passed = [] if whole is None else selector.passed(first, whole)
    passed += selector.others(found, others)
    best = selector.first_accepted(passed) or selector.first_part(first, parts)
    if best is not None:
        return selector.taken(best), selector.only_needed(best.strategy)
    if selector.refused:
        reason = f"no candidate passed: {selector.refused[0].reason}"
    else:
        reason = "the search found nothing that the cost model prefers"
    return selector.kept(reason, found), selector.only_needed(first)


@dataclass
class _Passed:
    """A candidate that passed, and the strategy of its search."""

    strategy: Strategy
    candidate: ModelCandidate
    result: CheckResult


class _Selector:
    """Checks candidates, and records the findings about refused ones."""

    def __init__(
        self,
        check: CandidateCheck,
        bodies: RewrittenBodies,
        searches: Mapping[Strategy, FoundRewrites],
        notices: Sequence[str],
        keep: Callable[[Selection | None], None],
    ) -> None:
        self.check, self.bodies, self.searches, self.notices, self._keep = check, bodies, searches, notices, keep
        self._kept: _Passed | None = None
        self.measure_s = check.context.options.measure_s
        self.tried: set[Strategy] = set()  # strategies of the candidates that were measured to be accepted
        self.refused: list[Refusal] = []
        self.difference: Difference | None = None  # of the first refused candidate, the same in a repeated run
        self.latency: Latency | None = None

    def candidates(self, strategy: Strategy, found: FoundRewrites) -> Iterator[ModelCandidate]:
        """Return the candidates of one search."""
        return candidates(found, self.bodies, strategy.label, bool(self.check.model.simplified_nodes))

    def passed(self, strategy: Strategy, candidate: ModelCandidate) -> list[_Passed]:
        """Check `candidate`; return it, or nothing if it is refused.

        Of a candidate with an operator that cannot be written, or with weights that take too long to fold, the rest is
        checked instead.
        """
        result = self.check.check(candidate)
        while not self._is_ok(candidate, result):
            rest = self._rest(strategy, candidate, result)
            if rest is None or not rest.traces:
                return []
            candidate, result = rest, self.check.check(rest)
        one = _Passed(strategy, candidate, result)
        if self._kept is None or result.speedup > self._kept.result.speedup:
            self.keep(one)
        return [one]

    def _rest(self, strategy: Strategy, candidate: ModelCandidate, result: CheckResult) -> ModelCandidate | None:
        """Return the part of a refused candidate to check instead, or None."""
        outputs = self.check.model.outputs
        if result.unwritable is not None:
            return without_operator(candidate, outputs, result.unwritable)
        if not result.is_foldable:
            gains = self.searches[strategy].gains
            return foldable_part(candidate, outputs, gains, self.check.folding.is_affordable)
        return None

    def keep(self, one: _Passed | None) -> None:
        """Hand over `one` as the selection to take if the run were stopped now, if its estimate is surely a gain."""
        if one is not None and one.result.latency is not None and one.result.latency.low <= 1:
            one = None
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

    def others(self, found: FoundRewrites, others: Sequence[tuple[Strategy, FoundRewrites]]) -> list[_Passed]:
        """Return the complete results of other searches that pass and differ from `found`."""
        passed, seen = list[_Passed](), [found.traces]
        for strategy, other in others:
            if self.check.measured_s >= _MAX_STRATEGIES_FACTOR * self.measure_s:
                break
            candidate = None if other.traces in seen else next(self.candidates(strategy, other), None)
            if candidate is not None:
                seen.append(other.traces)
                passed += self.passed(strategy, candidate)
                for one in passed:
                    one.result.proto = None  # free its weights; the model can be made again
        return passed

    def first_accepted(self, passed: list[_Passed]) -> _Passed | None:
        """Return the first of `passed` that is accepted, the fastest first."""
        for one in sorted(passed, key=lambda one: -one.result.speedup):
            self.tried.add(one.strategy)
            self.keep(one)
            self.check.accept(one.candidate, one.result)
            if self._is_ok(one.candidate, one.result):
                return one
            one.result.proto = None
            self.keep(None)
        return None

    def first_part(self, strategy: Strategy, parts: Iterator[ModelCandidate]) -> _Passed | None:
        """Return the first of `parts` that is accepted, within the limits on measurements."""
        check, begun, begun_s = self.check, self.check.measurements, self.check.measured_s
        while check.measurements - begun < _MAX_MEASUREMENTS:
            part = next(parts, None)
            if part is None or check.measured_s - begun_s >= _MAX_PARTS_FACTOR * self.measure_s:
                break
            if (accepted := self.first_accepted(self.passed(strategy, part))) is not None:
                return accepted
        return None

    def only_needed(self, strategy: Strategy) -> Strategy | None:
        """Return `strategy` if no candidate of another one was tried."""
        return strategy if self.tried <= {strategy} else None

    def taken(self, best: _Passed) -> Selection:
        """Return the selection of a candidate that has passed."""
        candidate, result = best.candidate, best.result
        return Selection(
            reason=candidate.name + self.check.unchecked,
            found=self.searches[best.strategy],
            proto=result.proto or self.check.make(candidate),
            traces=(*candidate.traces, *candidate.bodies.traces),
            graphs=result.graphs,
            difference=result.difference,
            latency=result.latency,
            refused=self.refused,
            notices=list(self.notices),
        )

    def kept(self, reason: str, found: FoundRewrites) -> Selection:
        """Return the selection of the original."""
        return Selection(
            reason,
            found,
            difference=self.difference,
            latency=self.latency,
            refused=self.refused,
            notices=list(self.notices),
        )
