"""Checks of one candidate: replay in the kernel, writing to memory, comparison with the original, measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from superopt.ir.term import Term
from superopt.onnx_io import Model, ModelError, Unwritable, replace_bodies, write_model
from superopt.onnx_io.constant_nodes import is_constant_node
from superopt.onnx_io.subgraphs import all_nodes
from superopt.optimizer.candidates import ModelCandidate
from superopt.optimizer.comparison_cache import ComparisonCache
from superopt.optimizer.context import RunContext
from superopt.optimizer.folding import Folding
from superopt.optimizer.result import Difference, InputAccuracy, Latency
from superopt.optimizer.speed_check import Speed, SpeedCheck, TooSlow
from superopt.optimizer.validator import Validator, runnable_form
from superopt.runtime import CannotRun, OutputComparison, open_session
from superopt.search.apply import replacements
from verify.replay import ReplayError, replay

__all__ = ["CandidateCheck", "CheckResult"]


@dataclass
class CheckResult:
    """Findings about a candidate.

    `problem` is None if the candidate passed, else its first problem; the other fields hold the findings before it.
    `graphs` has the graph before each pass. If the problem is an operator that cannot be written, it is `unwritable`;
    `is_foldable` is False if the problem is the time for folding.
    """

    problem: str | None = None
    proto: onnx.ModelProto | None = None
    graphs: list[Model] = field(default_factory=list)
    difference: Difference | None = None
    latency: Latency | None = None
    unwritable: Term | None = None
    is_foldable: bool = True

    @property
    def speedup(self) -> float:
        """The original's measured latency divided by the candidate's; 1 if nothing was measured."""
        return self.latency.ratio if self.latency is not None else 1.0


class _Refused(Exception):
    """The candidate failed a check; the message says which. `unwritable` is the operator that cannot be written."""

    def __init__(self, message: str, unwritable: Term | None = None) -> None:
        super().__init__(message)
        self.unwritable = unwritable


class _TooLongToFold(_Refused):
    """Folding the candidate's weights would take too long."""


class CandidateCheck:
    """Checks candidates of one run, one after the other.

    `model` is the original as terms, `validator` holds the original's outputs, and `speed` measures candidates. Both
    are None if the original cannot be run: then candidates are neither compared nor timed, and only have to load if
    they must (the original does).
    """

    def __init__(
        self,
        context: RunContext,
        validator: Validator | None,
        speed: SpeedCheck | None,
        model: Model,
        *,
        must_load: bool = True,
    ) -> None:
        self.context, self.validator, self.model, self._must_load = context, validator, model, must_load
        self.folding = Folding(context.pace.search_work_s)
        self.speed = speed if context.options.is_timed else None

    @property
    def unchecked(self) -> str:
        """The checks that candidates do not undergo, as a suffix of a reason."""
        if self.validator is None:
            return ", not compared and not timed"
        return ", not timed" if self.speed is None else ""

    def check(self, candidate: ModelCandidate) -> CheckResult:
        """Replay the candidate, write it to memory, compare its outputs, and estimate its speed if there is time.

        Stops at the first problem. The candidate passes if it is not slower in the estimate; `accept` decides.
        """
        result = CheckResult()
        try:
            model = self._replayed(candidate, result.graphs)
            result.graphs += candidate.bodies.graphs
            result.proto = self._written(model, candidate)
            try:
                self._run(result.proto, result)
            except CannotRun as error:
                raise _Refused(f"{self.context.target.runtime} does not run it: {error}") from None
        except _Refused as refused:
            result.problem, result.unwritable = str(refused), refused.unwritable
            result.is_foldable = not isinstance(refused, _TooLongToFold)
        return result

    def accept(self, candidate: ModelCandidate, result: CheckResult) -> None:
        """Measure a candidate that passed anew, and set latency and problem of its `result`. Nothing if not timed."""
        speed = self.speed
        if speed is None:
            return
        result.proto = result.proto or self.make(candidate)
        smaller = self._is_smaller(result.proto)
        with runnable_form(result.proto) as runnable:
            self._timed(
                result,
                "measuring the chosen candidate anew",
                lambda: speed.accept(runnable, is_smaller=smaller, only_folded=candidate.only_folded),
            )

    def make(self, candidate: ModelCandidate) -> onnx.ModelProto:
        """Make the model of a candidate that has passed once more."""
        return self._written(self._replayed(candidate, []), candidate)

    def _replayed(self, candidate: ModelCandidate, graphs: list[Model]) -> Model:
        """Return the rewritten graph, and append the graph before each pass to `graphs`."""
        model, proofs = self.model, self.context.proofs
        rewrites = f"replaying {candidate.name} in the kernel"
        try:
            with self.context.phases("replay", "preparing the cleaned-up model" if candidate.only_folded else rewrites):
                for trace in candidate.traces:
                    graphs.append(model)
                    model = model.with_outputs(replay(model.outputs, trace, proofs.own), replacements(trace))
        except ReplayError as error:
            proofs.correct()
            raise _Refused(f"the kernel does not accept it: {error}") from None
        return model

    def _written(self, model: Model, candidate: ModelCandidate) -> onnx.ModelProto:
        exact, folding = self.context.options.numerics == "exact", self.folding
        model = replace_bodies(model, candidate.bodies.written)
        seconds = 0.0 if exact else folding.seconds(model.outputs)  # "exact" folds no arithmetic
        if seconds > folding.allowance_s:
            raise _TooLongToFold(
                f"folding its weights would take about {seconds:.0f} s, more than the {folding.allowance_s:.0f} s that"
                " are left for it (--budget gives more)"
            )
        try:
            with self.context.phases("write", "folding weights"):
                proto = write_model(model, candidate.origin, exact=exact, known=folding.known)
        except Unwritable as error:
            raise _Refused(f"an operator cannot be written: {error}", error.term) from None
        except (ModelError, onnx.checker.ValidationError) as error:
            raise _Refused(f"it is not a valid model: {error}") from None
        folding.charge(seconds)
        if candidate.only_folded and not self._is_smaller(proto):
            raise _Refused("only constants would be folded, and nothing is gained by that")
        self.context.source.release_weights()  # those that were folded
        return proto

    def _run(self, proto: onnx.ModelProto, result: CheckResult) -> None:
        """Compare outputs and estimate the speed, as far as the original can be run. Raises CannotRun."""
        speed = self.speed
        with runnable_form(proto, is_timed=speed is not None) as runnable:
            if self.validator is None:
                if self._must_load:
                    open_session(runnable, self.context.target)
                return
            if speed is not None:  # to compare takes longer than to look up
                try:
                    speed.require_not_known_slower(runnable)
                except TooSlow as slow:
                    result.latency = slow.latency
                    raise _Refused(str(slow)) from None
            with self.context.phases("compare", "comparing outputs"):
                self._compare(runnable, self.validator, result)
            if speed is not None and self.context.pace.has_time_to_estimate:
                self._timed(result, "measuring, original and result interleaved", lambda: speed.estimate(runnable))
                if result.problem is not None:
                    raise _Refused(result.problem)

    def _compare(self, runnable: bytes | Path, validator: Validator, result: CheckResult) -> None:
        """Set the difference of `result`, by an earlier run's comparison if it passed. Raises CannotRun."""
        earlier = ComparisonCache(self.context, validator, runnable)
        result.difference = earlier.passed()
        if result.difference is not None:
            return
        comparison, accuracy = validator.compare(runnable, self.context.pace.references_s)
        result.difference = _difference(validator, comparison, accuracy)
        if comparison.problem is not None:
            raise _Refused(f"outputs differ: {comparison.problem}")
        earlier.keep(result.difference)

    def _timed(self, result: CheckResult, message: str, measure: Callable[[], Speed]) -> None:
        """Set the latency of `result` to what `measure` returns, and its problem if that is too slow."""
        with self.context.phases("measure", message):
            try:
                result.latency = measure().overall
            except TooSlow as slow:
                result.problem, result.latency = str(slow), slow.latency
            except CannotRun as error:
                result.problem = f"{self.context.target.runtime} does not run it: {error}"

    def _is_smaller(self, proto: onnx.ModelProto) -> bool:
        return _node_count(proto) < _node_count(self.context.source.proto)


def _difference(validator: Validator, comparison: OutputComparison, accuracy: list[InputAccuracy]) -> Difference:
    return Difference(
        comparison.absolute,
        comparison.relative,
        comparison.tolerance,
        validator.tolerance.own_spread,
        len(validator.feeds),
        accuracy,
    )


def _node_count(model: onnx.ModelProto) -> int:
    """Return the number of operators, those in bodies included."""
    return sum(not is_constant_node(node) for node in all_nodes(model.graph))
