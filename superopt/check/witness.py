"""The search for an input on which two models differ by more than roundings, confirmed in ONNX Runtime."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from superopt.check.faint import OPERATOR_NOISE, faint_gap, follows
from superopt.check.inputs import NOT_A_NUMBER, candidate_shapes, inputs_at, token_bounds
from superopt.check.rounding import NOISE, Gap, element, find_gap
from superopt.check.side import Side
from superopt.optimizer.float64 import NoReference
from superopt.optimizer.input_data import InputData, given_shapes, load_inputs
from superopt.optimizer.input_sizes import InputSizes
from superopt.optimizer.tolerance import derive_tolerance
from superopt.runtime import (
    CannotRun,
    Feeds,
    GivenShape,
    InputShapes,
    InputSpec,
    Unfeedable,
    close_unused,
    compare,
    feed_candidates,
    flat,
    input_specs,
    is_float,
    unit_roundoff,
)

__all__ = ["Witness", "WitnessSearch"]

_DRAWS = (0, 2, 4)  # pairs of evaluations with simulated roundings: first none, in the end enough to be sure of a gap
_AGREEMENT = 0.25  # of a difference: a run in ONNX Runtime may be that far from float64 to confirm it
_LARGE = 1e3  # times what single roundings explain: a difference that is worth time after the end of the search
_REFUSED = "[ONNXRuntimeError]"  # begins the message of a run that an operator refused
# In the message about a model that no runtime can run: it is no graph of operators as their schemas have them, or its
# types contradict each other. An operator that this runtime alone lacks "is not registered", in other words.
_INVALID = ("an invalid model", "Invalid model", "Type Error:", "[ShapeInferenceError]", "[TypeInferenceError]")
_GLANCED_SIZES = 5  # at which both models run in any case, as long as there is time
_ROUNDS = 40  # of inputs with other seeds
_PLAIN_FACTOR = 2.0  # roundings of an element by which runs may differ without a closer look


@dataclass(frozen=True)
class Witness:
    """An input on which the models differ. `kind` names it, `feeds` are its values by input.

    `problem` is one line. If both models run, `output` is the name of an output and `gap` its element where float64
    evaluations (or, without `exact`, runs) differ, and `left` and `right` are its values in ONNX Runtime. `is_faint`
    says that these values differ by roundings too: all elements of the runs together, or evaluations in float64 only,
    show the difference.
    """

    kind: str
    feeds: Feeds
    problem: str
    output: str = ""
    gap: Gap | None = None
    left: Any = None
    right: Any = None
    exact: bool = True
    is_faint: bool = False


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
        self._reference_s, self._deadline = reference_s, 0.0
        self._generator = self._inputs()
        self._deferred: list[tuple[str, Feeds, list[Any], list[Any]]] = []
        self._half = replace(derive_tolerance(left.source.proto), own_spread=np.inf)  # half of the digits
        self._bounds: Mapping[str, int] | None = None
        self._first_problem: CannotRun | None = None
        self._names = [value.name for value in left.source.proto.graph.output]
        self.tried = 0
        self.kinds: dict[str, int] = {}
        self.notices: list[str] = []

    def glance(self, seconds: float, most: int) -> Witness | None:
        """Try a few inputs first: differences in the lower half of the digits, which take time, are left to `run`.

        So is a greater one for which no time is left; `run` begins with it. After `most` inputs at one size, there is
        one at each of some other sizes: the second model may fail at some of them.
        """
        self._deadline = time.monotonic() + seconds
        for kind, feeds in itertools.chain(self._until(most), self._at_other_sizes()):
            found = self._at(kind, feeds, brief=True)
            if found is not None or self._over():
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
                if not self._left.is_empty_at(shapes) and not self._over():
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
        self._deadline = time.monotonic() + seconds
        while self._deferred and not self._over():
            found = self._compared(*self._deferred.pop(0))
            if found is not None:
                return found
        for kind, feeds in self._generator:
            found = self._at(kind, feeds)
            if found is not None:
                return found
            if self._over():
                return None
        if not self.tried and self._first_problem is not None:
            self.notices.append(f"A cannot be run here, so no input was tried: {self._first_problem}")
        return None

    def _over(self) -> bool:
        return time.monotonic() > self._deadline

    def _left_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def in_float64(self, seconds: float) -> Witness | None:
        """Return an input on which outputs differ beyond the roundings of float64, though no run may show it."""
        self._deadline = time.monotonic() + seconds
        for kind, feeds in self._generator:
            try:
                exact = self._exact(feeds)
                if exact is None:
                    return None
                draws = [self._simulated(feeds, k, OPERATOR_NOISE, exact_weights=True) for k in range(_DRAWS[1])]
                gap = faint_gap(flat(exact[0]), flat(exact[1]), draws)
                if gap is not None:
                    runs = [flat(side.run(feeds))[gap.output] for side in (self._left, self._right)]
                    a, b = (element(run, gap.index) for run in runs)
                    name = self._name(gap.output)
                    problem = f"output {name!r} differs by {gap.relative:.1e} relative in float64"
                    return Witness(kind, feeds, problem, name, gap, a, b, is_faint=True)
            except (NoReference, CannotRun):
                return None
            if self._over():
                return None
        return None

    def _inputs(self) -> Iterator[tuple[str, Feeds]]:
        for turn in range(_ROUNDS):
            for values, sizes in zip(self._given, self._sizes, strict=True):
                for shapes in candidate_shapes(sizes):
                    if self._left.is_empty_at(shapes):
                        continue  # `check` speaks of other sizes
                    yield from self._inputs_at(shapes, values, self._seed + 1000 * turn)
            if not self.tried:
                return

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
        self._progress(f"searching for a difference: input {self.tried + 1}, {self._left_s():.0f} s left")
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
        if all(_nearly_same(a, b) for a, b in zip(ours, theirs, strict=True)):
            return None
        if brief and compare(ours, theirs, self._half).ok:
            self._deferred.append((kind, feeds, ours, theirs))
            return None
        return self._compared(kind, feeds, ours, theirs)

    def _compared(self, kind: str, feeds: Feeds, ours: list[Any], theirs: list[Any]) -> Witness | None:
        found = self._difference(kind, feeds, ours, theirs)
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
                name = self._name(number)
                stated = [f"{x.dtype}[{', '.join(map(str, x.shape))}]" for x in (a, b)]
                return Witness(kind, feeds, f"output {name!r} is {stated[0]} in A and {stated[1]} in B", name)
        return None

    def _name(self, number: int) -> str:
        return self._names[number] if number < len(self._names) else str(number)  # parts of a sequence

    def _difference(self, kind: str, feeds: Feeds, ours: list[Any], theirs: list[Any]) -> Witness | None:
        try:
            exact = self._exact(feeds)
            if exact is None:  # without float64, a cancellation would look like a difference
                self._deferred.insert(0, (kind, feeds, ours, theirs))
                return None
            gap = self._gap(exact, feeds, [array.dtype for array in ours])
            faint = self._faint(exact, feeds, ours, theirs) if gap is None else None
        except NoReference as reason:
            return self._difference_of_runs(kind, feeds, ours, theirs, str(reason))
        if gap is None and faint is None:
            return None
        if gap is not None and (len(gap.index) != ours[gap.output].ndim or not _confirms(gap, ours, theirs)):
            return None
        found = gap or faint
        assert found is not None
        a, b = (element(run[found.output], found.index) for run in (ours, theirs))
        name = self._name(found.output)
        problem = _problem(name, found, a, b, faint is not None)
        return Witness(kind, feeds, problem, name, found, a, b, is_faint=faint is not None)

    def _exact(self, feeds: Feeds) -> tuple[list[Any], list[Any]] | None:
        """Return the outputs of both models in float64, None if the time is over. Raises NoReference."""
        ours = self._left.exact(feeds, self._reference_s)
        return None if self._over() else (ours, self._right.exact(feeds, self._reference_s))

    def _faint(
        self, exact: tuple[list[Any], list[Any]], feeds: Feeds, ours: list[Any], theirs: list[Any]
    ) -> Gap | None:
        """Return a difference in float64 that only all elements of the runs together confirm, or None."""
        if self._left.literals != self._right.literals:  # they may be roundings, and none is simulated for them
            return None
        draws: list[tuple[list[Any], list[Any]]] = []
        gap: Gap | None = None
        for count in _DRAWS:
            if count and self._over():
                return None
            draws += [self._simulated(feeds, len(draws) + k, OPERATOR_NOISE) for k in range(count)]
            gap = faint_gap(flat(exact[0]), flat(exact[1]), draws)
            if gap is None:
                return None
            k = gap.output
            pair = ours[k], theirs[k]
            if not is_float(ours[k].dtype) or not follows((flat(exact[0])[k], flat(exact[1])[k]), pair):
                return None
        return gap

    def _gap(self, exact: tuple[list[Any], list[Any]], feeds: Feeds, types: Sequence[Any]) -> Gap | None:
        """Return where evaluations in float64 differ beyond roundings. Raises NoReference."""
        draws: list[tuple[list[Any], list[Any]]] = []
        gap: Gap | None = None
        for count in _DRAWS:
            if count and self._over() and gap is not None and gap.excess < _LARGE:
                return None  # not decided: a few roundings may explain it
            draws += [self._simulated(feeds, len(draws) + k) for k in range(count)]
            gap = find_gap(*exact, draws, types)
            if gap is None:
                return None
        return gap

    def _simulated(
        self, feeds: Feeds, number: int, factor: float = NOISE, exact_weights: bool = False
    ) -> tuple[list[Any], list[Any]]:
        left, right, seconds = self._left, self._right, self._reference_s
        return (
            left.simulated(feeds, (self._seed, number, 0), seconds, None if exact_weights else right, factor),
            right.simulated(feeds, (self._seed, number, 1), seconds, None if exact_weights else left, factor),
        )

    def _difference_of_runs(
        self, kind: str, feeds: Feeds, ours: list[Any], theirs: list[Any], reason: str
    ) -> Witness | None:
        """Compare runs where there is no evaluation in float64: all digits of the upper half must differ, steadily.

        Both models are run at both levels of ONNX Runtime's optimizations, and no output of the one may come near any
        output of the other.
        """
        try:
            runs = [[ours, self._left.run(feeds)], [theirs, self._right.run(feeds)]]
            for each, side in zip(runs, (self._left, self._right), strict=True):
                each.append(side.run_otherwise(feeds))
        except CannotRun:
            return None
        for each in runs:
            if not all(compare(each[0], other, self._half).ok for other in each[1:]):
                return None  # it differs from itself as much
        findings = [compare(a, b, self._half) for a in runs[0] for b in runs[1]]
        if any(finding.ok for finding in findings):
            return None
        line = f"no evaluation in float64, so runs in ONNX Runtime were compared with each other: {reason}"
        self.notices += [line] if line not in self.notices else []
        finding = findings[0]
        return Witness(kind, feeds, finding.problem or "", self._name(finding.output), exact=False)


def _nearly_same(a: Any, b: Any) -> bool:
    """Return True if no element of two runs differs by more than two roundings: no difference could be confirmed."""
    if not is_float(a.dtype):
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        near = np.abs(x - y) <= _PLAIN_FACTOR * unit_roundoff(a.dtype) * np.abs(x)
    return bool(np.all(near | (x == y) | (np.isnan(x) & np.isnan(y))))


def _confirms(gap: Gap, ours: list[Any], theirs: list[Any]) -> bool:
    """Return True if runs in ONNX Runtime show the same values as float64 at the element of `gap`."""
    for run, exact in ((ours, gap.left), (theirs, gap.right)):
        found = element(run[gap.output], gap.index)
        if isinstance(found, float) and np.isfinite(exact) and np.isfinite(found):
            apart = abs(gap.left - gap.right)
            allowed = _AGREEMENT * apart if np.isfinite(apart) else _AGREEMENT * abs(exact)
            if abs(found - exact) > allowed:
                return False
        elif isinstance(found, float):
            if not (found == exact or (np.isnan(found) and np.isnan(exact))):
                return False
        elif found != exact:
            return False
    return True


def _problem(name: str, gap: Gap, left: Any, right: Any, is_faint: bool) -> str:
    if is_faint:
        return (
            f"output {name!r} differs by {gap.relative:.1e} relative in float64, where roundings of weights explain"
            f" {gap.rounding:.1e}; runs differ in the same direction, over all elements beyond their roundings"
        )
    place = f"[{', '.join(map(str, gap.index))}]" if gap.index else ""
    values = f"output {name!r}{place} is {_shown(left)} in A and {_shown(right)} in B"
    if not np.isfinite(gap.relative):
        return values
    return f"{values}, {gap.relative:.1e} relative, where roundings explain {gap.rounding:.1e}"


def _shown(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else repr(value)
