"""The original as the measure of its candidates: right on random inputs, and not slower."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from superopt.optimizer.timing_cache import RememberedTimings, Timer
from superopt.runtime import (
    CannotRun,
    Comparison,
    Feeds,
    InputSpec,
    Session,
    Target,
    Timing,
    compare,
    derive_tolerance,
    feed_candidates,
    fix_shapes,
    identical,
    input_specs,
    open_session,
    spread,
    time_models,
    with_specials,
    worst_of,
)

__all__ = ["Judge", "loadable"]

# Sizes to assume for dynamic dimensions: images that a network halves several times do not run at 1.
_ASSUMED = (1, 32, 224)
# Where the weights of both models do not fit into the caches together, the first runs after a change of models pay for
# fetching them. A deployed model is not taken in turns with another one, so samples are long enough to forget that.
_SAMPLE_S = 0.05
# Protobuf's limit of 2 GiB a message, with room for its own overhead.
_LARGEST_MESSAGE = 2**31 - 2**20


@contextlib.contextmanager
def loadable(model: onnx.ModelProto) -> Iterator[bytes | Path]:
    """`model` as ONNX Runtime can load it: bytes, or a temporary file with its weights beside it where over 2 GiB."""
    if sum(len(i.raw_data) for i in model.graph.initializer) < _LARGEST_MESSAGE:
        yield model.SerializeToString()
        return
    with tempfile.TemporaryDirectory(prefix="superopt-") as folder:
        path = Path(folder) / "model.onnx"
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        onnx.save_model(copy, path, save_as_external_data=True, location="weights.bin")
        yield path


class Judge:
    """Holds the original, inputs for it and its outputs on them. `exact`: candidates must give the same bits, on inputs
    with NaN and infinities among them, too. `remeasure`: what an earlier run has timed is timed again.

    Raises CannotRun where the original does not run on inputs made up for it, Unfeedable where none can be made,
    InputError for shapes that it does not take.
    """

    def __init__(
        self,
        source: bytes | Path,
        proto: onnx.ModelProto,
        target: Target,
        *,
        seed: int,
        shapes: Mapping[str, tuple[int, ...]],
        inputs: int = 3,
        timer: Timer | None = None,
        exact: bool = False,
        remeasure: bool = False,
    ) -> None:
        self.target = target
        self._exact = exact
        self._source = source
        self._timer = timer or RememberedTimings(self._interleaved, target, anew=remeasure)
        specs = input_specs(proto)
        self.shapes, self.notices = fix_shapes(specs, shapes)
        session = open_session(source, target)
        self._settle_shapes(session, specs, shapes, seed)
        self.feeds: list[Feeds] = []
        self._expected: list[list[Any]] = []
        for index in range(inputs if specs else 1):
            feeds, outputs = _accepted(session, feed_candidates(specs, self.shapes, seed, index))
            self.feeds.append(feeds)
            self._expected.append(outputs)
        if exact:
            with contextlib.suppress(CannotRun):
                special = with_specials(self.feeds[0], seed)
                self._expected.append(session.run(special))
                self.feeds.append(special)
        self.tolerance = derive_tolerance(proto)
        self._calibrate(source)

    def _settle_shapes(
        self, session: Session, specs: Sequence[InputSpec], given: Mapping[str, tuple[int, ...]], seed: int
    ) -> None:
        """Larger sizes where the model does not run at 1. Raises the CannotRun of size 1 where none helps."""
        first: CannotRun | None = None
        for size in _ASSUMED:
            shapes, notices = fix_shapes(specs, given, size)
            if first is not None and shapes == self.shapes:
                break
            try:
                _accepted(session, feed_candidates(specs, shapes, seed, 0))
            except CannotRun as error:
                first = first or error
                continue
            self.shapes, self.notices = shapes, notices
            return
        assert first is not None
        raise first

    def _calibrate(self, source: bytes | Path) -> None:
        try:
            plain = open_session(source, self.target, level="none")
            unoptimized = [plain.run(feeds) for feeds in self.feeds]
        except CannotRun as error:  # fp16 on the CPU, for one, runs only with casts that the optimizer inserts
            self.notices.append(f"not calibrated, the original does not run without optimizations: {error}")
            return
        for expected, outputs in zip(self._expected, unoptimized, strict=True):
            self.tolerance = spread(self.tolerance, expected, outputs)
        if self.tolerance.own > 1e-2:
            self.notices.append(
                f"the original differs from itself by {self.tolerance.own:.1e} (relative) between ONNX Runtime's"
                " optimization levels; comparing outputs says little here"
            )

    def compare(self, candidate: Session) -> Comparison:
        """The worst comparison over all inputs. Raises CannotRun where the candidate fails on one."""
        found = [(expected, candidate.run(feeds)) for feeds, expected in zip(self.feeds, self._expected, strict=True)]
        if self._exact:
            return worst_of([identical(a, b) for a, b in found])
        return worst_of([compare(a, b, self.tolerance) for a, b in found])

    def time(self, candidate: bytes | Path, budget_s: float) -> Timing:
        """The original against the candidate, interleaved. Raises CannotRun."""
        return self._timer(self._source, candidate, self.feeds[0], budget_s)

    def _interleaved(self, original: bytes | Path, candidate: bytes | Path, feeds: Feeds, budget_s: float) -> Timing:
        def maker(source: bytes | Path) -> Callable[[], Callable[[], object]]:
            def make() -> Callable[[], object]:
                session = open_session(source, self.target)
                return lambda: session.run(feeds)

            return make

        return time_models(
            maker(original),
            maker(candidate),
            budget_s=budget_s,
            cpu_clock=self.target.cpu_clock,
            sample_s=_SAMPLE_S,
        )


def _accepted(session: Session, candidates: Iterator[Feeds]) -> tuple[Feeds, list[Any]]:
    first: CannotRun | None = None
    for feeds in candidates:
        try:
            return feeds, session.run(feeds)
        except CannotRun as error:
            first = first or error
    assert first is not None
    raise first
