"""The original's outputs on one set of inputs, and the comparison of a candidate's outputs with them.

Floating-point outputs of original and candidate are both compared with the original in float64 where that is possible
(`superopt.runtime.accuracy`), else with each other (`superopt.runtime.compare`; on inputs of other scales half of the
digits must agree). Other outputs must be the original's, except for elements that roundings of the original's own
operators change.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from superopt.onnx_io import Model
from superopt.optimizer.float64 import Float64Model, Noise, NoReference
from superopt.optimizer.input_sets import REAL_SETS, SPECIAL_SETS
from superopt.optimizer.non_finite_inputs import NON_FINITE_SETS, compare_where_finite
from superopt.optimizer.result import InputAccuracy
from superopt.runtime import (
    Feeds,
    Mask,
    OutputComparison,
    Tolerance,
    compare,
    compare_accuracy,
    explained,
    flat,
    is_float,
    largest_error,
    worst_of,
)

__all__ = ["Expected", "References"]

_NOT_COMPUTED = "not computed in the time of the run"
_NOT_FINITE = "NaN or infinity in an input"
_LEAST_CPU_SECONDS = 15.0  # of this process, for the evaluations in float64 of one run
_DRAWS = 3  # evaluations with random roundings
_MARGIN = 4.0  # roundings so many times as large may change an integer output of the candidate


@dataclass
class _Budget:
    """The CPU time that float64 evaluations of one run may still take together, in seconds."""

    left: float

    def run(self, model: Float64Model, feeds: Feeds, noise: Noise | None = None) -> list[Any]:
        """Return the outputs of `model`. Raises NoReference, also if no time is left."""
        begun = time.process_time()
        try:
            return model.run(feeds, begun + self.left, noise)
        finally:
            self.left -= time.process_time() - begun


@dataclass(frozen=True)
class _Reference:
    """Outputs in float64, and the means to evaluate them again with random roundings."""

    model: Float64Model
    budget: _Budget
    outputs: list[Any]


class Expected:
    """Inputs, with the original's outputs on them.

    `kind` names the set of inputs (`input_sets`), `size` is the number of their shapes. `no_reference` says why there
    are no outputs in float64, or is None. `fault` says what ONNX Runtime's optimizations break, or is None.
    """

    def __init__(
        self,
        kind: str,
        size: int,
        feeds: Feeds,
        outputs: list[Any],
        seed: int,
        run_plain: Callable[[Feeds], list[Any] | None],
    ) -> None:
        self.kind, self.size, self.feeds, self.outputs = kind, size, feeds, outputs
        self.no_reference: str | None = _NOT_FINITE if kind in NON_FINITE_SETS else _NOT_COMPUTED
        self.fault: str | None = None
        self._reference: _Reference | None = None
        self._seed, self._run_plain = seed, run_plain
        self._draws: dict[float, list[list[Any]]] = {}

    @cached_property
    def plain(self) -> list[Any] | None:
        """The outputs without ONNX Runtime's optimizations, None if it does not run so. Run when they are asked for."""
        return self._run_plain(self.feeds)

    def refer(self, model: Float64Model, budget: _Budget, tolerance: Tolerance, *, is_confirmed: bool = False) -> None:
        """Compute the outputs in float64, and take them as reference if roundings explain the original's difference.

        `is_confirmed` says that they did on other inputs: a larger difference at another scale is the original's.
        """
        if self.no_reference != _NOT_COMPUTED:
            return
        try:
            reference = _Reference(model, budget, budget.run(model, self.feeds))
            trusted = is_confirmed and self.kind in REAL_SETS
            if not trusted and not explained(self.outputs, reference.outputs, tolerance):
                noisy = budget.run(model, self.feeds, Noise(np.random.default_rng(self._seed)))
                self._require_explained(reference.outputs, tolerance, noisy)
        except NoReference as reason:
            self.no_reference = str(reason)
            return
        self._reference, self.no_reference = reference, None

    def _require_explained(self, exact: list[Any], tolerance: Tolerance, noisy: list[Any]) -> None:
        """Take the outputs without optimizations for the original's if only these are right. Raises NoReference."""
        if explained(self.outputs, exact, tolerance, noisy):
            return
        error = largest_error(self.outputs, exact)
        if self.plain is None or not explained(self.plain, exact, tolerance, noisy):
            raise NoReference(f"the original's outputs differ by {error:.1e}, more than roundings explain")
        self.outputs = self.plain
        self.fault = f"ONNX Runtime's optimizations change the original's outputs by {error:.1e} (relative)"

    def compare(
        self, outputs: Sequence[Any], tolerance: Tolerance, *, plain: bool = False
    ) -> tuple[OutputComparison, InputAccuracy]:
        """Compare a candidate's outputs with the original's; return also the errors of both against float64.

        `plain` says that both are those without ONNX Runtime's optimizations.
        """
        ours = self.plain if plain and self.plain is not None else self.outputs
        unstable = self._unstable(ours, outputs)
        if self.kind in NON_FINITE_SETS:
            runs = [ours, *(run for run in (self.outputs, self.plain) if run is not None)]
            found = compare_where_finite(runs, outputs, tolerance, unstable)
            return found, InputAccuracy(self.kind, None, None, self.no_reference)
        reference = self._reference
        if reference is None:
            # How much the model amplifies roundings on inputs of other scales is not known then.
            allowed = replace(tolerance, own_spread=math.inf) if self.kind in SPECIAL_SETS else tolerance
            return compare(ours, outputs, allowed, unstable), InputAccuracy(self.kind, None, None, self.no_reference)
        others = compare(_hollow(ours), _hollow(outputs), tolerance, unstable)
        if others.problem is not None:
            return others, InputAccuracy(self.kind, None, None)
        found = compare_accuracy(ours, outputs, reference.outputs, tolerance)
        if found.problem is not None:
            found = compare_accuracy(ours, outputs, reference.outputs, tolerance, self._noisy(1.0))
        own, theirs = (_float_error(each, reference.outputs) for each in (ours, outputs))
        return worst_of([others, found]), InputAccuracy(self.kind, own, theirs)

    def compare_rounded(
        self, ours: Sequence[Any], theirs: Sequence[Any], tolerance: Tolerance, kind: str
    ) -> tuple[OutputComparison, InputAccuracy]:
        """Compare the errors of real outputs with products in TF32: `ours` are the original's, `theirs` a candidate's.

        Where there is no evaluation in float64, the original's outputs in float32 are exact enough.
        """
        exact = self.outputs if self._reference is None else self._reference.outputs
        found = compare_accuracy(ours, theirs, exact, tolerance.in_tf32)
        if found.problem is not None or self._reference is None:
            return found, InputAccuracy(kind, None, None, self.no_reference)
        return found, InputAccuracy(kind, _float_error(ours, exact), _float_error(theirs, exact))

    def _unstable(self, ours: Sequence[Any], theirs: Sequence[Any]) -> list[Mask | None]:
        """Return masks of the elements that differ between runs of the original, for outputs that are no floats."""
        a_all, b_all = flat(ours), flat(theirs)
        same = len(a_all) == len(b_all) and all(
            is_float(a.dtype) or np.array_equal(a, b) for a, b in zip(a_all, b_all, strict=True)
        )
        if same:
            return [None] * len(a_all)
        runs = [self.outputs, *([self.plain] if self.plain is not None else [])]
        if self._reference is not None:
            runs += [self._reference.outputs, *self._noisy(_MARGIN)]
        flattened = [flat(run) for run in runs]
        return [None if is_float(a.dtype) else _differing(a, [r[k] for r in flattened]) for k, a in enumerate(a_all)]

    def _noisy(self, factor: float) -> list[list[Any]]:
        """Return evaluations in float64 with random roundings, as many as time allows."""
        reference = self._reference
        if factor not in self._draws and reference is not None:
            found = self._draws[factor] = []
            try:
                for draw in range(_DRAWS):
                    noise = Noise(np.random.default_rng([self._seed, draw]), factor)
                    found.append(reference.budget.run(reference.model, self.feeds, noise))
            except NoReference:
                pass
        return self._draws.get(factor, [])


class References:
    """Evaluations of the original in float64: `models` are the original at each size.

    All together may take `cpu_s` seconds of this process's CPU time, or the least time that a run has for them.
    """

    def __init__(self, models: Sequence[Model], tolerance: Tolerance, cpu_s: float) -> None:
        self._tolerance, self._budget = tolerance, _Budget(max(cpu_s, _LEAST_CPU_SECONDS))
        self._is_confirmed = False
        self._longest_s = 0.0
        self._models: list[Float64Model] = []
        self._problem: str | None = None
        try:
            self._models = [Float64Model(model) for model in models]
        except NoReference as reason:
            self._problem = str(reason)

    def add(self, expected: Iterable[Expected], cpu_s: float = math.inf) -> None:
        """Evaluate the original on the inputs of `expected`, one after the other, unless that was done.

        The first ones confirm others. It ends before an evaluation that would exceed `cpu_s` seconds of CPU time, if it
        takes as long as the longest so far.
        """
        for one in expected:
            if self._longest_s > cpu_s:
                return
            left = self._budget.left
            self._add(one)
            used = left - self._budget.left
            cpu_s, self._longest_s = cpu_s - used, max(self._longest_s, used)

    def _add(self, expected: Expected) -> None:
        if self._problem is not None:
            expected.no_reference = self._problem
            return
        expected.refer(self._models[expected.size], self._budget, self._tolerance, is_confirmed=self._is_confirmed)
        self._is_confirmed = self._is_confirmed or expected.no_reference is None


def _differing(a: np.ndarray[Any, Any], runs: Sequence[np.ndarray[Any, Any]]) -> Mask:
    mask = np.zeros(a.shape, np.bool_)
    for run in runs:
        if run.shape == a.shape:
            mask |= run != a
    return mask


def _hollow(outputs: Sequence[Any]) -> list[Any]:
    """Return the outputs with empty arrays in the place of floats."""
    return [np.zeros((0,) * x.ndim, x.dtype) if is_float(x.dtype) else x for x in flat(outputs)]


def _float_error(outputs: Sequence[Any], exact: Sequence[Any]) -> float:
    pairs = [(a, x) for a, x in zip(flat(outputs), flat(exact), strict=True) if is_float(a.dtype)]
    return largest_error([a for a, _ in pairs], [x for _, x in pairs])
