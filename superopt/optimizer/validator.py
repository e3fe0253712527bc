"""Validation of candidates against the original, at all measured sizes: same outputs on random inputs, and timings."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from superopt.onnx_io.save import inline_bytes, spilled
from superopt.optimizer.input_sizes import InputSizes
from superopt.optimizer.measured_sizes import bytes_of_run, choose_shapes
from superopt.optimizer.model_timer import Timer
from superopt.optimizer.options import Options
from superopt.optimizer.source import Source
from superopt.optimizer.tolerance import derive_tolerance
from superopt.runtime import (
    CannotRun,
    Feeds,
    InputShapes,
    OutputComparison,
    RanTooLong,
    Session,
    Target,
    Timing,
    calibrate,
    compare,
    feed_candidates,
    identical,
    input_specs,
    open_session,
    time_once,
    with_specials,
    worst_of,
)

__all__ = ["Validator", "loadable"]

# Protobuf's limit of 2 GiB a message, with room for its own overhead.
_MAX_MESSAGE_BYTES = 2**31 - 2**20
# If the original's relative spread between optimization levels is larger, a comparison of outputs says little.
_LARGE_SPREAD = 1e-2


@contextlib.contextmanager
def loadable(model: onnx.ModelProto) -> Iterator[bytes | Path]:
    """Yield `model` in a form that ONNX Runtime loads: bytes, or above 2 GiB a temporary file with separate weights."""
    if inline_bytes(model) < _MAX_MESSAGE_BYTES:
        yield model.SerializeToString()
        return
    with tempfile.TemporaryDirectory(prefix="superopt-") as folder:
        yield spilled(model, Path(folder) / "weights").SerializeToString()


@dataclass(frozen=True)
class _Expected:
    """Random inputs of one size, and the original's outputs on them."""

    feeds: list[Feeds] = field(default_factory=list)
    outputs: list[list[Any]] = field(default_factory=list)


class Validator:
    """Compares candidates with the original and times them against it, at several sizes if the model has dynamic ones.

    Holds random inputs for the original (options `inputs`, `seed` and `shapes`) and its outputs on them. With numerics
    "exact", candidates must give the same bits, also on an input with NaN and infinities.

    `shapes` are the shapes of all inputs at each size, the smallest first (see `measured_sizes`), `tolerance` the
    tolerance of the comparison, and `notices` lines for the user.

    Raises CannotRun if the original runs on no drawn input, Unfeedable if no input can be drawn, InputError for shapes
    that the original does not accept.
    """

    def __init__(self, source: Source, target: Target, options: Options) -> None:
        self._source, self._target, self._exact = source, target, options.numerics == "exact"
        seed, specs = options.seed, input_specs(source.proto)
        sizes = InputSizes(specs, options.shapes)  # refuse unusable shapes before a session is opened
        session = open_session(source.runnable, target)

        def draw(shapes: InputShapes, index: int = 0) -> tuple[Feeds, list[Any]]:
            return _first_accepted(session, feed_candidates(specs, shapes, seed, index))

        def seconds_of(shapes: InputShapes) -> float:
            feeds, _ = draw(shapes)
            return time_once(lambda: session.run(feeds))[1]

        self.shapes, self.notices = choose_shapes(sizes, seconds_of, partial(bytes_of_run, source.terms))
        self._expected: list[_Expected] = []
        for number, shapes in enumerate(self.shapes):
            expected = _Expected()
            # One input is enough at further sizes: other values have been tried at the smallest.
            for index in range(options.inputs if specs and number == 0 else 1):
                feeds, outputs = draw(shapes, index)
                expected.feeds.append(feeds)
                expected.outputs.append(outputs)
            self._expected.append(expected)
        if self._exact:
            with contextlib.suppress(CannotRun):
                first = self._expected[0]
                special = with_specials(first.feeds[0], seed)
                first.outputs.append(session.run(special))
                first.feeds.append(special)
        self.tolerance = derive_tolerance(source.proto)
        self._calibrate()

    @property
    def feeds(self) -> list[Feeds]:
        """The inputs on which outputs are compared, at all sizes, the smallest size first."""
        return [feeds for expected in self._expected for feeds in expected.feeds]

    def _calibrate(self) -> None:
        """Widen the tolerance to the original's spread between ONNX Runtime's optimization levels."""
        try:
            plain = open_session(self._source.runnable, self._target, level="none")
            unoptimized = [[plain.run(feeds) for feeds in expected.feeds] for expected in self._expected]
        except CannotRun as error:  # for example float16 on the CPU runs only with casts that the optimizer inserts
            self.notices.append(f"not calibrated, the original does not run without optimizations: {error}")
            return
        for expected, found in zip(self._expected, unoptimized, strict=True):
            for outputs, others in zip(expected.outputs, found, strict=True):
                self.tolerance = calibrate(self.tolerance, outputs, others)
        if self.tolerance.own_spread > _LARGE_SPREAD:
            self.notices.append(
                f"the original differs from itself by {self.tolerance.own_spread:.1e} (relative) between ONNX Runtime's"
                " optimization levels; comparing outputs says little here"
            )

    def compare(self, candidate: Session) -> OutputComparison:
        """Return the worst comparison over all inputs. Raises CannotRun if the candidate fails on one."""
        found = [
            (outputs, candidate.run(feeds))
            for expected in self._expected
            for feeds, outputs in zip(expected.feeds, expected.outputs, strict=True)
        ]
        if self._exact:
            return worst_of([identical(a, b) for a, b in found])
        return worst_of([compare(a, b, self.tolerance) for a, b in found])

    def time(self, candidate: bytes | Path, timer: Timer, budget_s: float) -> list[Timing]:
        """Time the original against the candidate with `timer`, `budget_s` seconds in all; one timing for each size.

        Raises CannotRun.
        """
        share = budget_s / len(self._expected)
        return [timer(self._source.runnable, candidate, expected.feeds[0], share) for expected in self._expected]


def _first_accepted(session: Session, candidates: Iterator[Feeds]) -> tuple[Feeds, list[Any]]:
    """Return the first feeds on which the model runs, and its outputs. Raises the first CannotRun if there are none."""
    first: CannotRun | None = None
    for feeds in candidates:
        try:
            return feeds, session.run(feeds)
        except RanTooLong:  # other integers would take as long
            raise
        except CannotRun as error:
            first = first or error
    assert first is not None
    raise first
