"""The search for an input on which two models differ: at several sizes, with random values and special ones."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from superopt.check.differences import Comparison, Undecided, Witness, nearly_same
from superopt.check.inputs import NOT_A_NUMBER, candidate_shapes, inputs_at, token_bounds
from superopt.check.side import Side
from superopt.optimizer.float64 import NoReference
from superopt.optimizer.input_data import InputData, given_shapes, load_inputs
from superopt.optimizer.input_sizes import InputSizes
from superopt.optimizer.measured_sizes import bytes_of_run, fitting_sizes
from superopt.runtime import (
    CannotRun,
    Feeds,
    GivenShape,
    InputShapes,
    InputSpec,
    Unfeedable,
    close_unused,
    feed_candidates,
    flat,
    input_specs,
)

__all__ = ["WitnessSearch"]

_REFUSED = "[ONNXRuntimeError]"  # begins the message of a run that an operator refused
# In the message about a model that no runtime can run: it is no graph of operators as their schemas have them, or its
# types contradict each other. An operator that this runtime alone lacks "is not registered", in other words.
_INVALID = ("an invalid model", "Invalid model", "Type Error:", "[ShapeInferenceError]", "[TypeInferenceError]")
_GLANCED_SIZES = 5  # at which both models run in any case, as long as there is time
_ROUNDS = 40  # of inputs with other seeds


class WitnessSearch:
    """Tries inputs until one shows a difference. An evaluation in float64 may take `reference_s` seconds of CPU time.

    `tried` counts the inputs on which both models ran, `kinds` names them. `notices` are lines for the user. Raises
    InputError for shapes or values that the left model does not accept, Unfeedable if an input cannot be drawn.
    """

    def __init__(
        self,
        left: Side,
        right: Side,
        *,
        shapes: Mapping[str, GivenShape],
        inputs: Sequence[InputData],
        seed: int,
        reference_s: float,
        progress: Callable[[str], None],
    ) -> None:
        self._left, self._right, self._seed, self._progress = left, right, seed, progress
        self._specs: list[InputSpec] = input_specs(left.source.proto)
        self._given = [load_inputs(data, self._specs) for data in inputs] or [Feeds()]
        self._sizes = [InputSizes(self._specs, given_shapes(values, shapes)) for values in self._given]
        self._comparison = Comparison(left, right, seed=seed, reference_s=reference_s)
        self._generator = self._inputs()
        self._deferred: list[tuple[str, Feeds, list[Any], list[Any]]] = []
        self._bounds: Mapping[str, int] | None = None
        self._first_problem: CannotRun | None = None
        self._runs_at_larger_sizes_only = False
        self.tried = 0
        self.kinds: dict[str, int] = {}
        self.notices = self._comparison.notices

    def glance(self, seconds: float, most: int) -> Witness | None:
        """Try a few inputs first: differences in the lower half of the digits, which take time, are left to `run`.

        So is a greater one for which no time is left; `run` begins with it. After `most` inputs at one size, there is
        one at each of some other sizes: the second model may fail at some of them.
        """
        self._comparison.deadline = time.monotonic() + seconds
        for kind, feeds in itertools.chain(self._until(most), self._at_other_sizes()):
            found = self._at(kind, feeds, brief=True)
            if found is not None or self._comparison.is_over():
                return found
        return None

    def _until(self, most: int) -> Iterator[tuple[str, Feeds]]:
        """Yield the next inputs, until `most` were tried."""
        for one in self._generator:
            yield one
            if self.tried >= most:
                return

    def _at_other_sizes(self) -> Iterator[tuple[str, Feeds]]:
        """Yield an input on which the left model runs at each of some sizes, but for the first ones."""
        for values, sizes in zip(self._given, self._sizes, strict=True):
            for shapes in itertools.islice(candidate_shapes(sizes), 1, _GLANCED_SIZES):
                if not self._left.is_empty_at(shapes) and not self._comparison.is_over():
                    with contextlib.suppress(Unfeedable):
                        accepted = self._drawn(shapes, values, self._seed)
                        if accepted is not None:
                            yield "random", accepted

    def pause(self) -> None:
        """Free the memory of both models' sessions; they are opened again when they are used."""
        self._left.close()
        self._right.close()
        close_unused()

    def run(self, seconds: float) -> Witness | None:
        """Go on with the search for so many seconds; return a witness or None."""
        self._comparison.deadline = time.monotonic() + seconds
        while self._deferred and not self._comparison.is_over():
            found = self._compared(*self._deferred.pop(0))
            if found is not None:
                return found
        for kind, feeds in self._generator:
            found = self._at(kind, feeds)
            if found is not None:
                return found
            if self._comparison.is_over():
                return None
        if not self.tried and self._first_problem is not None:
            self.notices.append(f"A cannot be run here, so no input was tried: {self._first_problem}")
        return None

    def in_float64(self, seconds: float) -> Witness | None:
        """Return an input on which outputs differ beyond the roundings of float64, though no run may show it."""
        self._comparison.deadline = time.monotonic() + seconds
        for kind, feeds in self._generator:
            try:
                found = self._comparison.in_float64(kind, feeds)
            except (NoReference, CannotRun, Undecided):
                return None
            if found is not None or self._comparison.is_over():
                return found
        return None

    def _inputs(self) -> Iterator[tuple[str, Feeds]]:
        for turn in range(_ROUNDS):
            for values, sizes in zip(self._given, self._sizes, strict=True):
                for shapes in self._shapes(sizes):
                    if self._left.is_empty_at(shapes):
                        continue  # `check` speaks of other sizes
                    yield from self._inputs_at(shapes, values, self._seed + 1000 * turn)
            if not self.tried:
                return

    def _shapes(self, sizes: InputSizes) -> Iterator[InputShapes]:
        """Yield shapes of all inputs; larger ones if the left model runs at no small ones, as a model of sounds."""
        if not self._runs_at_larger_sizes_only:
            yield from candidate_shapes(sizes)
        if not self._left.ran:
            self._runs_at_larger_sizes_only = True
        if self._runs_at_larger_sizes_only:
            yield from fitting_sizes(sizes, lambda shapes: bytes_of_run(self._left.terms, shapes))

    def _inputs_at(self, shapes: InputShapes, values: Feeds, seed: int) -> Iterator[tuple[str, Feeds]]:
        try:
            if self._bounds is None:  # it takes many runs, so one input comes first
                accepted = self._drawn(shapes, values, seed)
                if accepted is None:
                    return
                yield "random", accepted
                tables = [*self._left.tables(), *self._right.tables()]
                self._bounds = token_bounds(self._specs, shapes, tables, self._runs)
            models = [self._left.at(shapes), self._right.at(shapes)]
            yield from inputs_at(self._specs, shapes, models, values, self._bounds, seed, self._first)
        except Unfeedable as error:  # sizes that are too large to draw
            if not self.tried and str(error) not in self.notices:
                self.notices.append(str(error))

    def _drawn(self, shapes: InputShapes, values: Feeds, seed: int) -> Feeds | None:
        """Return random inputs at a size, with the given values, on which the left model runs, or None."""
        return self._first({**feeds, **values} for feeds in feed_candidates(self._specs, shapes, seed, 0))

    def _first(self, candidates: Iterator[Feeds]) -> Feeds | None:
        """Return the first of several inputs on which the left model runs, or None."""
        return next((feeds for feeds in candidates if self._runs(feeds)), None)

    def _runs(self, feeds: Feeds) -> bool:
        """Return True if the left model runs on `feeds`."""
        try:
            self._left.run(feeds)
        except CannotRun as error:
            self._first_problem = self._first_problem or error
            return False
        return True

    def _at(self, kind: str, feeds: Feeds, brief: bool = False) -> Witness | None:
        """Run both models on one input and compare them; if `brief`, defer a comparison that takes time."""
        left_s = max(0.0, self._comparison.deadline - time.monotonic())
        self._progress(f"searching for a difference: input {self.tried + 1}, {left_s:.0f} s left")
        try:
            ours = flat(self._left.run(feeds))
        except CannotRun:
            return None
        try:
            theirs = flat(self._right.run(feeds))
        except CannotRun as error:
            return self._failure(kind, feeds, error)
        self.tried += 1
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        shape = self._other_shape(kind, feeds, ours, theirs)
        if shape is not None:
            return shape
        if all(nearly_same(a, b) for a, b in zip(ours, theirs, strict=True)):
            return None
        if brief and self._comparison.are_near(ours, theirs):
            self._deferred.append((kind, feeds, ours, theirs))
            return None
        return self._compared(kind, feeds, ours, theirs)

    def _compared(self, kind: str, feeds: Feeds, ours: list[Any], theirs: list[Any]) -> Witness | None:
        try:
            found = self._comparison.difference(kind, feeds, ours, theirs)
        except Undecided:
            self._deferred.insert(0, (kind, feeds, ours, theirs))
            return None
        if found is not None and kind == NOT_A_NUMBER:
            line = (
                f"on an input with NaN and infinities the models differ, which says nothing of numbers: {found.problem}"
            )
            self.notices += [line] if line not in self.notices else []
            return None
        return found

    def _failure(self, kind: str, feeds: Feeds, error: CannotRun) -> Witness | None:
        if self._right.is_open and str(error).startswith(_REFUSED):  # no lack of memory or time, no crash
            return Witness(kind, feeds, f"A runs on this input, and B does not: {error}")
        if any(mark in str(error) for mark in _INVALID):
            return Witness(kind, feeds, f"A runs, and B is no valid model: {error}")
        line = f"B cannot be run here, so no input was tried: {error}"
        self.notices += [line] if line not in self.notices else []
        return None

    def _other_shape(self, kind: str, feeds: Feeds, ours: list[Any], theirs: list[Any]) -> Witness | None:
        if len(ours) != len(theirs):
            return Witness(kind, feeds, f"A has {len(ours)} outputs on this input, B has {len(theirs)}")
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if a.shape != b.shape or a.dtype != b.dtype:
                name = self._comparison.name(number)
                stated = [f"{x.dtype}[{', '.join(map(str, x.shape))}]" for x in (a, b)]
                return Witness(kind, feeds, f"output {name!r} is {stated[0]} in A and {stated[1]} in B", name)
        return None
