"""Differences of two models on one input beyond roundings, shown by float64 and confirmed by ONNX Runtime."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from superopt.check.faint import OPERATOR_NOISE, faint_gap, follows
from superopt.check.rounding import NOISE, Gap, element, find_gap
from superopt.check.side import Side
from superopt.optimizer.float64 import NoReference
from superopt.optimizer.tolerance import derive_tolerance
from superopt.runtime import CannotRun, Feeds, compare, flat, is_float, unit_roundoff

__all__ = ["Comparison", "Undecided", "Witness", "nearly_same"]

_DRAWS = (0, 2, 4)  # pairs of evaluations with simulated roundings: first none, in the end enough to be sure of a gap
_AGREEMENT = 0.25  # of a difference: a run in ONNX Runtime may be that far from float64 to confirm it
_LARGE = 1e3  # times what single roundings explain: a difference that is worth time after the end of the search
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


class Undecided(Exception):
    """The time is over before a difference of runs was evaluated in float64: without, a cancellation looks like one."""


class Comparison:
    """Compares the outputs of two models until `deadline`, a time of `time.monotonic`.

    An evaluation in float64 may take `reference_s` seconds of CPU time. `notices` are lines for the user.
    """

    def __init__(self, left: Side, right: Side, *, seed: int, reference_s: float) -> None:
        self._left, self._right, self._seed, self._reference_s = left, right, seed, reference_s
        tolerance = derive_tolerance(left.source.proto, left.source.terms)
        self._half = replace(tolerance, own_spread=np.inf)  # half of the digits
        self._names = [value.name for value in left.source.proto.graph.output]
        self.deadline = 0.0
        self.notices: list[str] = []

    def is_over(self) -> bool:
        """Return True after the deadline."""
        return time.monotonic() > self.deadline

    def name(self, number: int) -> str:
        """Return the name of an output, or its number: parts of a sequence have none."""
        return self._names[number] if number < len(self._names) else str(number)

    def are_near(self, ours: list[Any], theirs: list[Any]) -> bool:
        """Return True if runs agree in half of their digits."""
        return compare(ours, theirs, self._half).ok

    def difference(self, kind: str, feeds: Feeds, ours: list[Any], theirs: list[Any]) -> Witness | None:
        """Return how the models differ on one input, of which they computed `ours` and `theirs`. Raises Undecided."""
        try:
            exact = self._exact(feeds)
            if not len(flat(exact[0])) == len(flat(exact[1])) == len(ours):
                raise NoReference("an output is a sequence")
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
        name = self.name(found.output)
        problem = _problem(name, found, a, b, faint is not None)
        return Witness(kind, feeds, problem, name, found, a, b, is_faint=faint is not None)

    def in_float64(self, kind: str, feeds: Feeds) -> Witness | None:
        """Return how outputs differ beyond the roundings of float64, though no run may show it.

        Raises NoReference, CannotRun, Undecided.
        """
        exact = self._exact(feeds)
        draws = [self._simulated(feeds, k, OPERATOR_NOISE, exact_weights=True) for k in range(_DRAWS[1])]
        gap = faint_gap(flat(exact[0]), flat(exact[1]), draws)
        if gap is None:
            return None
        runs = [flat(side.run(feeds))[gap.output] for side in (self._left, self._right)]
        a, b = (element(run, gap.index) for run in runs)
        name = self.name(gap.output)
        problem = f"output {name!r} differs by {gap.relative:.1e} relative in float64"
        return Witness(kind, feeds, problem, name, gap, a, b, is_faint=True)

    def _exact(self, feeds: Feeds) -> tuple[list[Any], list[Any]]:
        """Return the outputs of both models in float64. Raises NoReference, Undecided."""
        ours = self._left.exact(feeds, self._reference_s)
        if self.is_over():
            raise Undecided
        return ours, self._right.exact(feeds, self._reference_s)

    def _faint(
        self, exact: tuple[list[Any], list[Any]], feeds: Feeds, ours: list[Any], theirs: list[Any]
    ) -> Gap | None:
        """Return a difference in float64 that only all elements of the runs together confirm, or None."""
        if self._left.literals != self._right.literals:  # they may be roundings, and none is simulated for them
            return None
        draws: list[tuple[list[Any], list[Any]]] = []
        gap: Gap | None = None
        for count in _DRAWS:
            if count and self.is_over():
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
            if count and self.is_over() and gap is not None and gap.excess < _LARGE:
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
        return Witness(kind, feeds, finding.problem or "", self.name(finding.output), exact=False)


def nearly_same(a: Any, b: Any) -> bool:
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
