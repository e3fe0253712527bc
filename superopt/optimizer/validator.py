"""Validation of candidates against the original, at all measured sizes: same outputs on random inputs, and timings."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from superopt.onnx_io import Model
from superopt.onnx_io.external_data import all_tensors, is_external
from superopt.onnx_io.opaque import draws_numbers
from superopt.onnx_io.save import INLINE_LIMIT, inline_bytes, spilled
from superopt.onnx_io.subgraphs import all_nodes
from superopt.optimizer.expected import Expected, References
from superopt.optimizer.input_data import given_shapes, load_inputs
from superopt.optimizer.input_sets import SPECIAL_SETS, input_sets
from superopt.optimizer.input_sizes import InputSizes
from superopt.optimizer.measured_sizes import bytes_of_run, choose_shapes
from superopt.optimizer.model_timer import InputsTimer
from superopt.optimizer.non_finite_inputs import NON_FINITE_SETS, has_number, non_finite_inputs
from superopt.optimizer.opening import Opening
from superopt.optimizer.options import Options
from superopt.optimizer.original import OriginalSessions, open_original
from superopt.optimizer.result import InputAccuracy
from superopt.optimizer.source import Source
from superopt.optimizer.tolerance import derive_tolerance
from superopt.runtime import (
    CannotRun,
    Feeds,
    InputShapes,
    OutputComparison,
    Target,
    Timing,
    calibrate,
    compare,
    feed_candidates,
    finite_share,
    identical,
    input_specs,
    is_float,
    open_session,
    time_once,
    with_specials,
    worst_of,
)
from superopt.temporary import temporary_folder

__all__ = ["Validator", "runnable_form"]

# If the original's relative spread between optimization levels is larger, a comparison of outputs says little.
_LARGE_SPREAD = 1e-2
_TF32, _BITS = "TF32", "every bit is compared"
_MAX_INLINE_BYTES = 1 << 24  # of weights in a message
_REFERENCE_SHARE = 0.25  # of the run's budget: CPU time for evaluations in float64
_SIZES_SHARE = 0.15  # of the run's budget, to find the sizes at which a model of dynamic sizes runs


@contextlib.contextmanager
def runnable_form(model: onnx.ModelProto, *, is_timed: bool = True) -> Iterator[bytes | Path]:
    """Yield `model` in a form that ONNX Runtime loads: bytes, or temporary files, one of them for the weights.

    If it `is_timed`, its weights are inside up to 2 GiB, as in the file that will be written. Otherwise there are two
    files from 16 MiB on: weights of their own are written once and mapped, and in one message, 435 MB took 3.2 s to
    serialize before that.
    """
    inline, is_whole = inline_bytes(model), not any(map(is_external, all_tensors(model)))
    if inline <= (INLINE_LIMIT if is_timed or not is_whole else _MAX_INLINE_BYTES):
        yield model.SerializeToString()
        return
    with temporary_folder() as folder:
        if is_whole:
            path = folder / "model.onnx"
            path.write_bytes(spilled(model, folder / "weights", beside=True).SerializeToString())
            yield path
        else:  # other files stay where they are
            yield spilled(model, folder / "weights").SerializeToString()


class Validator:
    """Compares candidates with the original and times them against it, at several sizes if the model has dynamic ones.

    Holds inputs for the original, and its outputs on them: given or random inputs (options `inputs`, `samples`,
    `seed` and `shapes`) and, at the smallest size, those of `input_sets`, each with an evaluation in float64 as long as
    time allows, and those of `non_finite_inputs`. With numerics "exact", candidates must give the same bits, also on an
    input with NaN and infinities.

    On CUDA, outputs are compared in float32. With products in TF32, as the runtime takes them unless it is told not to,
    a candidate must be as accurate as the original as well.

    If not `thorough`, there are random inputs only, and no evaluations in float64. If not `plain`, models run with ONNX
    Runtime's optimizations only.

    `shapes` are the shapes of all inputs at each size, the smallest first (see `measured_sizes`), `timed` the inputs at
    each size on which models are timed. After `complete`, `tolerance` is the tolerance of the comparison, and `notices`
    are lines for the user.

    Raises CannotRun if the original runs on no drawn input, Unfeedable if no input can be drawn, InputError for shapes
    or values that the original does not accept, OSError.
    """

    def __init__(
        self,
        source: Source,
        target: Target,
        options: Options,
        opening: Opening | None = None,
        *,
        thorough: bool = True,
        plain: bool = True,
    ) -> None:
        self._source, self._target, self._options = source, target, options
        self._exact, self._thorough = options.numerics == "exact", thorough
        self._seed, self._specs = options.seed, input_specs(source.proto)
        # Refuse unusable shapes and values before a session is opened.
        given = [load_inputs(data, self._specs) for data in options.inputs] or [Feeds()]
        sizes = [InputSizes(self._specs, given_shapes(values, options.shapes)) for values in given]
        self._fixed = {name for values in given for name in values}
        self._original = OriginalSessions(
            source,
            target.in_float32,
            None if opening is None else opening.session,
            plain=plain and target.has_levels,
        )

        def seconds_of(values: Feeds, shapes: InputShapes) -> float:
            begun = time.perf_counter()
            feeds, _ = self._draw(shapes, values)
            drawn_s = time.perf_counter() - begun
            run_s = time_once(lambda: self._original.run(feeds))[1]
            return max(run_s, drawn_s - run_s)  # at large sizes drawing inputs may take longer than a run

        self.shapes: list[InputShapes] = []
        self.notices: list[str] = []
        self._given: list[list[Feeds]] = []  # given values, for each size
        for values, open_sizes in zip(given, sizes, strict=True):
            found, notices = choose_shapes(
                open_sizes,
                partial(seconds_of, values),
                lambda shapes: bytes_of_run(source.terms, shapes),
                limit_s=_SIZES_SHARE * options.budget_s,
                is_timed=options.is_timed,
            )
            for shapes in found:
                if shapes not in self.shapes:
                    self.shapes.append(shapes)
                    self._given.append([])
                self._given[self.shapes.index(shapes)].append(values)
            self.notices += [notice for notice in notices if notice not in self.notices]
        self._first = [self._draw(shapes, own[0]) for shapes, own in zip(self.shapes, self._given, strict=True)]
        self.timed = [feeds for feeds, _ in self._first]
        self.tolerance = derive_tolerance(source.proto, source.terms)
        self._expected: list[Expected] = []
        self._is_complete = False
        self._references: References | None = None
        if source.is_large:
            self._original.close()

    def _draw(self, shapes: InputShapes, values: Feeds, index: int = 0) -> tuple[Feeds, list[Any]]:
        drawn = feed_candidates(self._specs, shapes, self._seed, index)
        return self._original.first_accepted({**feeds, **values} for feeds in drawn)

    @property
    def given(self) -> list[Feeds]:
        """The values that the user gave, at all sizes."""
        return [values for own in self._given for values in own]

    def complete(self) -> None:
        """Run the original on all inputs, if that is not done. Whatever compares does so first. Raises CannotRun."""
        if self._is_complete:
            return
        self._expected.clear()  # of an attempt that has failed
        for number, (shapes, own) in enumerate(zip(self.shapes, self._given, strict=True)):
            # One random input is enough at further sizes: other values have been tried at the smallest.
            is_one = number or len(self._fixed) == len(self._specs)
            for index in range(len(own) if is_one else max(len(own), self._options.samples)):
                feeds, outputs = self._draw(shapes, own[index % len(own)], index) if index else self._first[number]
                self._add("given" if self._fixed else "another size" if number else "random", feeds, outputs, number)
                if self._thorough and index == number == 0:
                    self._add_special(feeds, outputs)
        for expected in self._expected:
            # Of a special set, outputs without optimizations are rarely asked for. Of a large model, no second session
            # may be open then.
            is_special = expected.kind in SPECIAL_SETS | NON_FINITE_SETS
            plain = None if is_special and not self._source.is_large else expected.plain
            if plain is not None and not is_special:
                self.tolerance = calibrate(self.tolerance, expected.outputs, plain)
        if self._thorough and not self._exact:
            self._references = References(self._models, self.tolerance, _REFERENCE_SHARE * self._options.budget_s)
        if self._source.is_large:
            self._original.close()
        self._refer(self._expected[:1])
        self._note()
        if self._source.is_large:
            self._original.close()
        self._is_complete = True

    def _refer(self, expected: Iterable[Expected], cpu_s: float = math.inf) -> None:
        """Compute references in float64, as far as this run has any, in `cpu_s` seconds of CPU time."""
        if self._references is not None:
            self._references.add(expected, cpu_s)
            self._source.release_weights()

    def _add(self, kind: str, feeds: Feeds, outputs: list[Any], size: int = 0) -> None:
        expected = Expected(kind, size, feeds, outputs, self._seed, self._original.run_plain)
        if not self._thorough:
            expected.no_reference = "not computed in a quick run"
        self._expected.append(expected)

    def _add_special(self, feeds: Feeds, outputs: list[Any]) -> None:
        """Add the sets of inputs that are derived from a random input."""
        if self._exact:
            with contextlib.suppress(CannotRun):
                special = with_specials(feeds, self._seed)
                self._add("specials", special, self._original.run(special))
        for kind, candidates in input_sets(self._models[0], feeds, self._seed, self._fixed):
            for candidate in candidates:
                with contextlib.suppress(CannotRun):
                    found = self._original.run(candidate)
                    if all(np.isfinite(array).all() for array in candidate.values() if is_float(array.dtype)) and (
                        finite_share(found) >= finite_share(outputs)
                    ):
                        self._add(kind, candidate, found)
                        break
        # A loop until a number is small enough would never end.
        if not self._exact and not any(node.op_type == "Loop" for node in all_nodes(self._source.proto.graph)):
            for kind, candidate in non_finite_inputs(feeds, self._fixed):
                with contextlib.suppress(CannotRun):
                    found = self._original.run(candidate)
                    if has_number(found):
                        self._add(kind, candidate, found)

    @cached_property
    def _models(self) -> list[Model]:
        """The original as terms, with the values of symbolic sizes, at each of `shapes`."""
        return [self._source.terms.at_shapes(shapes) for shapes in self.shapes]

    def _note(self) -> None:
        first, spread = self._expected[0], self.tolerance.own_spread
        self.notices += [*self._original.notices, *([first.fault] if first.fault is not None else [])]
        if not self._is_repeatable(first):
            self.notices.append(
                "the original draws random numbers, so its outputs differ from run to run, and a result cannot be"
                " compared with them"
            )
        elif spread > _LARGE_SPREAD and first.no_reference is not None:
            self.notices.append(
                f"the original differs from itself by {spread:.1e} (relative) between ONNX Runtime's optimization"
                " levels; comparing outputs says little here"
            )

    def _is_repeatable(self, first: Expected) -> bool:
        """Return True if the original has the same outputs again."""
        if first.no_reference is None or (first.plain is None and not draws_numbers(self._source.proto)):
            return True
        if first.plain is not None and compare(first.outputs, first.plain, self.tolerance).ok:
            return True
        again = self._original.run(first.feeds)
        return compare(first.outputs, again, replace(self.tolerance, own_spread=0.0)).ok

    @property
    def feeds(self) -> list[Feeds]:
        """The inputs on which outputs are compared, at all sizes, the smallest size first."""
        self.complete()
        return [expected.feeds for expected in self._expected]

    def compare(
        self, candidate: bytes | Path, references_s: float = math.inf
    ) -> tuple[OutputComparison, list[InputAccuracy]]:
        """Return the worst comparison over all inputs, and the accuracy on each of them.

        The first input is also compared without ONNX Runtime's optimizations, which may hide a fault of the candidate.
        Evaluations in float64 on the other inputs take about `references_s` seconds of CPU time at most. Raises
        CannotRun if the candidate fails on an input.
        """
        self.complete()
        self._refer(self._expected[1:], references_s)
        session = open_session(candidate, self._target.in_float32)
        comparison, accuracies = self.compare_outputs(session.run(feeds) for feeds in self.feeds)
        del session
        if comparison.problem is None and self._original.runs_plain:
            comparison = worst_of([comparison, self._compared_plain(candidate)])
        if comparison.problem is None and self._target.rounds_operands:
            rounded, accuracy = self._compared_rounded(candidate)
            accuracies.append(accuracy)
            comparison = comparison if rounded.problem is None else rounded
        return comparison, accuracies

    def _compared_plain(self, candidate: bytes | Path) -> OutputComparison:
        """Compare outputs without ONNX Runtime's optimizations on the first input."""
        first = self._expected[0]
        outputs = open_session(candidate, self._target.in_float32, level="none").run(first.feeds)
        found, _ = self._compared(first, outputs, plain=True)
        problem = found.problem and f"{found.problem} (without ONNX Runtime's optimizations)"
        return replace(found, problem=problem)

    def _compared_rounded(self, candidate: bytes | Path) -> tuple[OutputComparison, InputAccuracy]:
        """Compare outputs with products in TF32 on the first input."""
        first = self._expected[0]
        outputs = open_session(candidate, self._target).run(first.feeds)
        if self._exact:
            found, accuracy = identical(self._rounded, outputs), InputAccuracy(_TF32, None, None, _BITS)
        else:
            found, accuracy = first.compare_rounded(self._rounded, outputs, self.tolerance, _TF32)
        return replace(found, problem=found.problem and f"{found.problem} (with products in TF32)"), accuracy

    @cached_property
    def _rounded(self) -> list[Any]:
        """The original's outputs on the first input with products in TF32."""
        if self._source.is_large:
            self._original.close()
        level = "all" if self._original.runs_optimized else "none"
        return open_original(self._source, self._target, level).run(self._expected[0].feeds)

    def compare_outputs(self, outputs: Iterable[list[Any]]) -> tuple[OutputComparison, list[InputAccuracy]]:
        """Compare a candidate's outputs on all `feeds`; stop at the first problem."""
        found: list[OutputComparison] = []
        accuracies: list[InputAccuracy] = []
        for expected, theirs in zip(self._expected, outputs, strict=False):
            comparison, accuracy = self._compared(expected, theirs)
            if comparison.problem is not None and expected.no_reference is not None:  # it may be as accurate
                self._refer([expected])
                comparison, accuracy = self._compared(expected, theirs)
            found.append(comparison)
            accuracies.append(accuracy)
            if comparison.problem is not None:
                return comparison, accuracies
        return worst_of(found), accuracies

    def _compared(
        self, expected: Expected, outputs: list[Any], plain: bool = False
    ) -> tuple[OutputComparison, InputAccuracy]:
        if not self._exact:
            return expected.compare(outputs, self.tolerance, plain=plain)
        ours = expected.plain if plain and expected.plain is not None else expected.outputs
        return identical(ours, outputs), InputAccuracy(expected.kind, None, None, _BITS)

    def time(self, candidate: bytes | Path, timer: InputsTimer, budget_s: float) -> list[Timing]:
        """Time the original against the candidate with `timer`, `budget_s` seconds in all; one timing for each size.

        Raises CannotRun.
        """
        return timer(self._source.runnable, candidate, self.timed, budget_s)
