"""Checks of one candidate: replay in the kernel, writing to memory, comparison with the original, measurement."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import onnx

from superopt.onnx_io import Model, ModelError, replace_bodies, write_model
from superopt.onnx_io.constant_nodes import is_constant_node
from superopt.onnx_io.subgraphs import all_nodes
from superopt.optimizer.candidates import ModelCandidate
from superopt.optimizer.context import RunContext
from superopt.optimizer.result import Difference, Latency
from superopt.optimizer.validator import Validator, loadable
from superopt.runtime import CannotRun, OutputComparison, Timing, open_session
from superopt.search.apply import replacements
from verify.replay import ReplayError, replay

__all__ = ["CandidateCheck", "CheckResult"]

# A candidate is refused if the 95% interval of its speed-up reaches below this bound, even if the speed-up itself is at
# least 1.
_MIN_INTERVAL_LOW = 0.98
# A measurement whose interval contains 1 is repeated, this many times as long.
_CLOSE_CALL_FACTOR = 2


@dataclass
class CheckResult:
    """Findings about a candidate.

    `problem` is None if the candidate passed, else its first problem; the other fields hold the findings before it.
    `graphs` has the graph before each pass.
    """

    problem: str | None = None
    proto: onnx.ModelProto | None = None
    graphs: list[Model] = field(default_factory=list)
    difference: Difference | None = None
    latency: Latency | None = None

    @property
    def speedup(self) -> float:
        """The original's measured latency divided by the candidate's; 1 if nothing was measured."""
        return self.latency.ratio if self.latency is not None else 1.0


class _Refused(Exception):
    """The candidate failed a check; the message says which."""


class CandidateCheck:
    """Checks candidates of one run, one after the other.

    `model` is the original as terms, and `validator` holds the original's outputs and times candidates against it.
    `measurements` counts the measurements made, in units of `options.measure_s`; `measured_s` is the time they took in
    seconds (for a remembered measurement, the time it took in the earlier run).
    """

    def __init__(self, context: RunContext, validator: Validator, model: Model) -> None:
        self.context, self.validator, self.model = context, validator, model
        self.measurements = 0
        self.measured_s = 0.0

    def check(self, candidate: ModelCandidate) -> CheckResult:
        """Replay the candidate, write it to memory, compare its outputs, and measure it; stop at the first problem."""
        result = CheckResult()
        try:
            model = self._replayed(candidate, result.graphs)
            result.graphs += candidate.bodies.graphs
            result.proto = self._written(model, candidate)
            try:
                self._run(result.proto, result)
            except CannotRun as error:
                raise _Refused(f"ONNX Runtime does not run it: {error}") from None
            if result.latency is not None:
                self._require_faster(result.latency, result.proto, candidate)
        except _Refused as refused:
            result.problem = str(refused)
        return result

    def make(self, candidate: ModelCandidate) -> onnx.ModelProto:
        """Make the model of a candidate that has passed once more."""
        return self._written(self._replayed(candidate, []), candidate)

    def _replayed(self, candidate: ModelCandidate, graphs: list[Model]) -> Model:
        """Return the rewritten graph, and append the graph before each pass to `graphs`."""
        model, proofs = self.model, self.context.proofs
        try:
            with self.context.phases("replay", f"replaying {candidate.name} in the kernel"):
                for trace in candidate.traces:
                    graphs.append(model)
                    model = model.with_outputs(replay(model.outputs, trace, proofs.own), replacements(trace))
        except ReplayError as error:
            proofs.correct()
            raise _Refused(f"the kernel does not accept it: {error}") from None
        return model

    def _written(self, model: Model, candidate: ModelCandidate) -> onnx.ModelProto:
        exact = self.context.options.numerics == "exact"
        try:
            with self.context.phases("write", "folding weights"):
                proto = write_model(replace_bodies(model, candidate.bodies.written), candidate.origin, exact=exact)
        except (ModelError, onnx.checker.ValidationError) as error:
            raise _Refused(f"it is not a valid model: {error}") from None
        if candidate.only_folded and not self._is_smaller(proto):
            raise _Refused("it is no smaller")
        return proto

    def _run(self, proto: onnx.ModelProto, result: CheckResult) -> None:
        """Compare outputs, and measure unless the target is absent. Raises CannotRun."""
        with loadable(proto) as runnable:
            with self.context.phases("compare", "comparing outputs"):
                comparison = self.validator.compare(open_session(runnable, self.context.target))
            result.difference = self._difference(comparison)
            if comparison.problem is not None:
                raise _Refused(f"outputs differ: {comparison.problem}")
            if not self.context.options.target_absent:
                with self.context.phases("measure", "measuring, original and result interleaved"):
                    result.latency = _latency(self._measured(runnable))

    def _measured(self, runnable: bytes | Path) -> Timing:
        timing = self._measure(runnable, 1)
        if timing.low < 1 < timing.high:
            timing = self._measure(runnable, _CLOSE_CALL_FACTOR)
        return timing

    def _measure(self, runnable: bytes | Path, factor: int) -> Timing:
        timing = self.validator.time(runnable, factor * self.context.options.measure_s)
        self.measurements += factor
        self.measured_s += timing.seconds
        return timing

    def _require_faster(self, latency: Latency, proto: onnx.ModelProto, candidate: ModelCandidate) -> None:
        """Raise _Refused unless the candidate is faster, or not slower and smaller."""
        measured = f"{latency.ratio:.3f} ({latency.low:.3f} to {latency.high:.3f})"
        if latency.ratio < 1 or latency.low < _MIN_INTERVAL_LOW:
            raise _Refused(f"slower, or not surely faster: {measured}")
        if latency.low <= 1 and candidate.only_folded:  # noise must not decide
            raise _Refused(f"not surely faster, and only folded: {measured}")
        if latency.low <= 1 and not self._is_smaller(proto):
            raise _Refused(f"not surely faster, and no smaller: {measured}")

    def _is_smaller(self, proto: onnx.ModelProto) -> bool:
        return _node_count(proto) < _node_count(self.context.source.proto)

    def _difference(self, comparison: OutputComparison) -> Difference:
        return Difference(
            comparison.absolute,
            comparison.relative,
            comparison.tolerance,
            self.validator.tolerance.own_spread,
            len(self.validator.feeds),
        )


def _latency(timing: Timing) -> Latency:
    return Latency(
        timing.before * 1e3,
        timing.after * 1e3,
        timing.ratio,
        timing.low,
        timing.high,
        timing.wall_before * 1e3,
        timing.wall_after * 1e3,
        timing.rounds,
        timing.clock,
        timing.remembered,
    )


def _node_count(model: onnx.ModelProto) -> int:
    """Return the number of operators, those in bodies included."""
    return sum(not is_constant_node(node) for node in all_nodes(model.graph))
