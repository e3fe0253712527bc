"""Selection of the result: the fastest complete candidate that passes its checks, else the first part that passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field

import onnx

from superopt.ir.trace import Trace
from superopt.onnx_io import Model
from superopt.optimizer.bodies import RewrittenBodies
from superopt.optimizer.candidate_check import CandidateCheck, CheckResult
from superopt.optimizer.candidates import ModelCandidate, candidates
from superopt.optimizer.context import RunContext
from superopt.optimizer.model_search import FoundRewrites
from superopt.optimizer.result import Difference, Latency, Refusal
from superopt.optimizer.strategies import Strategy
from superopt.optimizer.validator import Validator

__all__ = ["Selection", "select"]

# Parts of a result are tried until this many measurements were made; a repeated measurement counts as three.
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
    context: RunContext,
    validator: Validator,
    model: Model,
    searches: Mapping[Strategy, FoundRewrites],
    bodies: RewrittenBodies,
) -> tuple[Selection, Strategy]:
    """Select among the results of `searches` (not empty), each combined with the rewritten `bodies`.

    Return the fastest complete candidate that passes its checks, with the strategy of its search. If none passes, try
    parts of the first search's result in order and return the first part that passes; else keep the original.
    """
    selector = _Selector(CandidateCheck(context, validator, model), bodies)
    (first, found), *others = searches.items()
    parts = selector.candidates(first, found)
    whole = next(parts, None)
    best = None if whole is None else selector.passed(first, whole)
    best = selector.fastest(best, found, others)
    best = best or selector.first_part(first, parts)
    if best is not None:
        return selector.taken(best, searches[best.strategy]), best.strategy
    if whole is not None:
        reason = f"no candidate passed: {selector.refused[0].reason}"
    else:
        reason = "the search found nothing that the cost model prefers"
    return selector.kept(reason, found), first


@dataclass
class _Passed:
    """A candidate that passed, and the strategy of its search."""

    strategy: Strategy
    candidate: ModelCandidate
    result: CheckResult


class _Selector:
    """Checks candidates, and records the findings about refused ones."""

    def __init__(self, check: CandidateCheck, bodies: RewrittenBodies) -> None:
        self.check, self.bodies = check, bodies
        self.measure_s = check.context.options.measure_s
        self.refused: list[Refusal] = []
        self.difference: Difference | None = None  # of the first refused candidate, the same in a repeated run
        self.latency: Latency | None = None

    def candidates(self, strategy: Strategy, found: FoundRewrites) -> Iterator[ModelCandidate]:
        """Return the candidates of one search."""
        return candidates(found, self.bodies, strategy.label, bool(self.check.model.simplified_nodes))

    def passed(
        self, strategy: Strategy, candidate: ModelCandidate, check: CandidateCheck | None = None
    ) -> _Passed | None:
        """Check `candidate`; return None if it is refused."""
        result = (check or self.check).check(candidate)
        if result.problem is None:
            return _Passed(strategy, candidate, result)
        if not self.refused:
            self.difference, self.latency = result.difference, result.latency
        self.refused.append(Refusal(candidate.name, result.problem))
        return None

    def fastest(
        self, best: _Passed | None, found: FoundRewrites, others: Sequence[tuple[Strategy, FoundRewrites]]
    ) -> _Passed | None:
        """Return the fastest of `best`, which comes from `found`, and the complete results of other searches."""
        # These measurements do not count for the limit on parts: a repeated run does not make them, and must have the
        # same result.
        check, seen = copy(self.check), [found.traces]
        for strategy, other in others:
            if check.measured_s >= _MAX_STRATEGIES_FACTOR * self.measure_s:
                break
            candidate = None if other.traces in seen else next(self.candidates(strategy, other), None)
            if candidate is None:
                continue
            seen.append(other.traces)
            if best is not None:
                best.result.proto = None  # free its weights; the model can be made again
            passed = self.passed(strategy, candidate, check)
            if passed is not None and (best is None or passed.result.speedup > best.result.speedup):
                best = passed
        return best

    def first_part(self, strategy: Strategy, parts: Iterator[ModelCandidate]) -> _Passed | None:
        """Return the first of `parts` that passes, within the limits on measurements."""
        check = self.check
        while check.measurements < _MAX_MEASUREMENTS and check.measured_s < _MAX_PARTS_FACTOR * self.measure_s:
            part = next(parts, None)
            if part is None:
                break
            if (passed := self.passed(strategy, part)) is not None:
                return passed
        return None

    def taken(self, best: _Passed, found: FoundRewrites) -> Selection:
        """Return the selection of a candidate that has passed."""
        candidate, result = best.candidate, best.result
        timed = not self.check.context.options.target_absent
        return Selection(
            reason=candidate.name if timed else f"{candidate.name}, not timed",
            found=found,
            proto=result.proto or self.check.make(candidate),
            traces=(*candidate.traces, *candidate.bodies.traces),
            graphs=result.graphs,
            difference=result.difference,
            latency=result.latency,
            refused=self.refused,
        )

    def kept(self, reason: str, found: FoundRewrites) -> Selection:
        """Return the selection of the original."""
        return Selection(reason, found, difference=self.difference, latency=self.latency, refused=self.refused)
