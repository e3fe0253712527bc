"""Validation of candidates against the original: same outputs on random inputs, and not slower."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from superopt.optimizer.model_timer import Timer
from superopt.optimizer.options import Options
from superopt.optimizer.source import Source
from superopt.optimizer.tolerance import derive_tolerance
from superopt.runtime import (
    CannotRun,
    Feeds,
    InputSpec,
    OutputComparison,
    RanTooLong,
    Session,
    Target,
    Timing,
    calibrate,
    compare,
    feed_candidates,
    fix_shapes,
    identical,
    input_specs,
    open_session,
    with_specials,
    worst_of,
)

__all__ = ["Validator", "loadable"]

# Sizes to assume for dynamic dimensions, in order: networks that halve an image several times do not run at 1.
_ASSUMED_SIZES = (1, 32, 224)
# Protobuf's limit of 2 GiB a message, with room for its own overhead.
_MAX_MESSAGE_BYTES = 2**31 - 2**20
# If the original's relative spread between optimization levels is larger, a comparison of outputs says little.
_LARGE_SPREAD = 1e-2


@contextlib.contextmanager
def loadable(model: onnx.ModelProto) -> Iterator[bytes | Path]:
    """Yield `model` in a form that ONNX Runtime loads: bytes, or above 2 GiB a temporary file with separate weights."""
    if sum(len(i.raw_data) for i in model.graph.initializer) < _MAX_MESSAGE_BYTES:
        yield model.SerializeToString()
        return
    with tempfile.TemporaryDirectory(prefix="superopt-") as folder:
        path = Path(folder) / "model.onnx"
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        onnx.save_model(copy, path, save_as_external_data=True, location="weights.bin")
        yield path


class Validator:
    """Compares candidates with the original and times them against it.

    Holds random inputs for the original (options `inputs`, `seed` and `shapes`) and its outputs on them. With numerics
    "exact", candidates must give the same bits, also on an input with NaN and infinities. `timer` measures a candidate
    against the original.

    `shapes` are the shapes of all inputs, `feeds` the random inputs, `tolerance` the tolerance of the comparison, and
    `notices` lines for the user.

    Raises CannotRun if the original runs on no drawn input, Unfeedable if no input can be drawn, InputError for shapes
    that the original does not accept.
    """

    def __init__(self, source: Source, target: Target, options: Options, timer: Timer) -> None:
        self._source, self._target, self._exact = source, target, options.numerics == "exact"
        self._timer = timer
        seed, specs = options.seed, input_specs(source.proto)
        fix_shapes(specs, options.shapes)  # refuse unusable shapes before a session is opened
        session = open_session(source.runnable, target)
        self.shapes, self.notices = _runnable_shapes(session, specs, options.shapes, seed)
        self.feeds: list[Feeds] = []
        self._expected: list[list[Any]] = []
        for index in range(options.inputs if specs else 1):
            feeds, outputs = _first_accepted(session, feed_candidates(specs, self.shapes, seed, index))
            self.feeds.append(feeds)
            self._expected.append(outputs)
        if self._exact:
            with contextlib.suppress(CannotRun):
                special = with_specials(self.feeds[0], seed)
                self._expected.append(session.run(special))
                self.feeds.append(special)
        self.tolerance = derive_tolerance(source.proto)
        self._calibrate()

    def _calibrate(self) -> None:
        """Widen the tolerance to the original's spread between ONNX Runtime's optimization levels."""
        try:
            plain = open_session(self._source.runnable, self._target, level="none")
            unoptimized = [plain.run(feeds) for feeds in self.feeds]
        except CannotRun as error:  # for example float16 on the CPU runs only with casts that the optimizer inserts
            self.notices.append(f"not calibrated, the original does not run without optimizations: {error}")
            return
        for expected, outputs in zip(self._expected, unoptimized, strict=True):
            self.tolerance = calibrate(self.tolerance, expected, outputs)
        if self.tolerance.own_spread > _LARGE_SPREAD:
            self.notices.append(
                f"the original differs from itself by {self.tolerance.own_spread:.1e} (relative) between ONNX Runtime's"
                " optimization levels; comparing outputs says little here"
            )

    def compare(self, candidate: Session) -> OutputComparison:
        """Return the worst comparison over all inputs. Raises CannotRun if the candidate fails on one."""
        found = [(expected, candidate.run(feeds)) for feeds, expected in zip(self.feeds, self._expected, strict=True)]
        if self._exact:
            return worst_of([identical(a, b) for a, b in found])
        return worst_of([compare(a, b, self.tolerance) for a, b in found])

    def time(self, candidate: bytes | Path, budget_s: float) -> Timing:
        """Time the original against the candidate, interleaved. Raises CannotRun."""
        return self._timer(self._source.runnable, candidate, self.feeds[0], budget_s)


def _runnable_shapes(
    session: Session, specs: Sequence[InputSpec], given: Mapping[str, tuple[int, ...]], seed: int
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Return shapes of all inputs at the smallest assumed size at which the model runs, and notices about it.

    Raises the CannotRun of size 1 if the model runs at none.
    """
    first: CannotRun | None = None
    smallest: dict[str, tuple[int, ...]] | None = None
    for size in _ASSUMED_SIZES:
        shapes, notices = fix_shapes(specs, given, size)
        if shapes == smallest:
            break  # nothing is assumed
        smallest = smallest or shapes
        try:
            _first_accepted(session, feed_candidates(specs, shapes, seed, 0))
        except RanTooLong:  # larger sizes take no less
            raise
        except CannotRun as error:
            first = first or error
            continue
        return shapes, notices
    assert first is not None
    raise first


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
