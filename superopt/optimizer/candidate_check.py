"""One candidate on trial: replayed in the kernel, written to memory, compared with the original, and measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from superopt.ir.term import Term
from superopt.onnx_io import Model, ModelError, put_back, write_model
from superopt.onnx_io.subgraphs import all_nodes
from superopt.optimizer.bodies import Inside
from superopt.optimizer.candidates import Traces
from superopt.optimizer.proof_cache import RememberedProofs
from superopt.optimizer.result import Difference, Latency
from superopt.optimizer.validator import Judge, loadable
from superopt.runtime import CannotRun, Comparison, Target, Timing, open_session
from verify.replay import ReplayError, replay

__all__ = ["Candidate", "Outcome", "Trial"]

# A result whose 95% interval reaches below this is refused even where its median is not slower.
_LEAST_LOW = 0.98


@dataclass(frozen=True)
class Candidate:
    """What to make of the original: the passes to apply, and what to put in place of its bodies. `origin` names
    the rule that made a term."""

    name: str
    traces: Traces
    inside: Inside
    origin: Mapping[Term, str] = field(default_factory=dict)

    @property
    def only_folded(self) -> bool:
        """Whether no rule was used: the runtime folds as well."""
        return not (self.traces or self.inside.traces)


@dataclass
class Outcome:
    """What became of a candidate: `problem` is None where it passed. The rest is what was found out until then;
    `graphs` are what each of its passes began with."""

    problem: str | None = None
    proto: onnx.ModelProto | None = None
    graphs: list[Model] = field(default_factory=list)
    difference: Difference | None = None
    latency: Latency | None = None


class _Refused(Exception):
    """The message says what is wrong with the candidate."""


@dataclass
class Trial:
    """Tries one candidate after the other against the original: `model` is that as terms, `original` as it is on disk.

    With `timed` false nothing is timed. `phase` is a context for each step: its name, and what to say of it. `looks`
    are those at candidates so far, measured in the seconds that are meant for one; they took `looked_s` seconds, when
    they were first taken.
    """

    model: Model
    original: onnx.ModelProto
    judge: Judge
    proofs: RememberedProofs
    target: Target
    exact: bool
    timed: bool
    measure_s: float
    phase: Callable[[str, str], AbstractContextManager[None]]
    looks: int = 0
    looked_s: float = 0.0

    def outcome(self, candidate: Candidate) -> Outcome:
        """Whether the candidate is proven, right and not slower."""
        outcome = Outcome()
        try:
            model = self._replayed(candidate, outcome.graphs)
            outcome.graphs += candidate.inside.graphs
            outcome.proto = self._written(model, candidate)
            try:
                self._run(outcome.proto, outcome)
            except CannotRun as error:
                raise _Refused(f"ONNX Runtime does not run it: {error}") from None
            if outcome.latency is not None:
                self._is_faster(outcome.latency, outcome.proto, candidate)
        except _Refused as refused:
            outcome.problem = str(refused)
        return outcome

    def made(self, candidate: Candidate) -> onnx.ModelProto:
        """What is written for a candidate that has passed."""
        return self._written(self._replayed(candidate, []), candidate)

    def _replayed(self, candidate: Candidate, graphs: list[Model]) -> Model:
        """The rewritten graph; what each pass began with goes to `graphs`."""
        model = self.model
        try:
            with self.phase("replay", f"replaying {candidate.name} in the kernel"):
                for trace in candidate.traces:
                    graphs.append(model)
                    model = model.with_outputs(replay(model.outputs, trace, self.proofs.own), trace)
        except ReplayError as error:
            self.proofs.correct()
            raise _Refused(f"the kernel does not accept it: {error}") from None
        return model

    def _written(self, model: Model, candidate: Candidate) -> onnx.ModelProto:
        try:
            with self.phase("write", "folding weights"):
                proto = write_model(put_back(model, candidate.inside.written), candidate.origin, exact=self.exact)
        except (ModelError, onnx.checker.ValidationError) as error:
            raise _Refused(f"it is not a valid model: {error}") from None
        if candidate.only_folded and _size(proto) >= _size(self.original):
            raise _Refused("it is no smaller")
        return proto

    def _run(self, proto: onnx.ModelProto, outcome: Outcome) -> None:
        """Compares and, where that is wanted, times. Raises CannotRun."""
        with loadable(proto) as source:
            with self.phase("compare", "comparing outputs"):
                comparison = self.judge.compare(open_session(source, self.target))
            outcome.difference = self._difference(comparison)
            if comparison.problem is not None:
                raise _Refused(f"outputs differ: {comparison.problem}")
            if self.timed:
                with self.phase("measure", "measuring, original and result interleaved"):
                    outcome.latency = _latency(self._measured(source))

    def _measured(self, source: bytes | Path) -> Timing:
        timing = self._look(source, 1)
        if timing.low < 1 < timing.high:  # a close call is worth a longer look
            timing = self._look(source, 2)
        return timing

    def _look(self, source: bytes | Path, times: int) -> Timing:
        timing = self.judge.time(source, times * self.measure_s)
        self.looks += times
        self.looked_s += timing.seconds
        return timing

    def _is_faster(self, latency: Latency, proto: onnx.ModelProto, candidate: Candidate) -> None:
        measured = f"{latency.ratio:.3f} ({latency.low:.3f} to {latency.high:.3f})"
        if latency.ratio < 1 or latency.low < _LEAST_LOW:
            raise _Refused(f"slower, or not surely faster: {measured}")
        if latency.low <= 1 and candidate.only_folded:  # let noise not decide
            raise _Refused(f"not surely faster, and only folded: {measured}")
        if latency.low <= 1 and _size(proto) >= _size(self.original):
            raise _Refused(f"not surely faster, and no smaller: {measured}")

    def _difference(self, comparison: Comparison) -> Difference:
        return Difference(
            comparison.absolute,
            comparison.relative,
            comparison.tolerance,
            self.judge.tolerance.own,
            len(self.judge.feeds),
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


def _size(model: onnx.ModelProto) -> int:
    """Operators, those in bodies too."""
    return sum(node.op_type != "Constant" for node in all_nodes(model.graph))
