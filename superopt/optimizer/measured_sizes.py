"""The sizes at which a model with dynamic sizes is searched, compared and measured.

A rewrite may be faster at one size and slower at another: merging two MatMuls saves an operator, and multiplies the
arithmetic. So a model is measured at a small and a large size, and in the middle if these are far apart. Given ranges
tell the ends. Other sizes begin at 1 (or 32 or 224: networks that halve an image several times do not run at 1; or 1024
or 16384: the window of a sound's spectrum is longer than these) and are doubled as long as the model runs, in a
sensible time and memory. A model that refuses all these may need one size to be a sum of others: the mask of a decoder
with a cache has a place for each cached and each new token, and a name of its own.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from superopt.ir.dim import Size
from superopt.ir.term import topological
from superopt.ir.types import TensorType
from superopt.onnx_io import Model
from superopt.optimizer.input_sizes import InputSizes, sizes_between
from superopt.runtime import CannotRun, InputError, InputShapes, RanTooLong, show_shape
from superopt.runtime.child_main import available_bytes
from superopt.search.cost.work import bytes_of

__all__ = ["DoesNotFit", "SecondsOfRun", "bytes_of_run", "choose_shapes", "fitting_sizes"]

# Seconds of one run of the original at these shapes. Raises CannotRun.
SecondsOfRun: TypeAlias = Callable[[InputShapes], float]

_ASSUMED_SIZES = (1, 32, 224)
_ASSUMED_LENGTHS = (1024, 16384)  # of signals, if no size above is enough: one window, and a second at 16 kHz
_MAX_SUMS = 24  # tried: all of four sizes
_SIZE_OF_SUMMANDS = 3  # at least: of 1 and 1, a sum is also a product
_MAX_GROWTH = 1024  # of a size that is not given
# A run at grown sizes takes at most this long, or (bounded) a multiple of the run at the sizes where growth began.
_MAX_RUN_SECONDS, _MAX_SLOWDOWN, _MAX_SECONDS_OF_SLOW_RUN = 0.2, 4, 2.0
_MAX_BYTES_OF_RUN = 1 << 30  # all values of a run together at grown sizes
_COPIES_OF_INPUTS = 3  # as drawn, of the right type, and in the process that runs the model


class DoesNotFit(CannotRun):
    """An input does not fit into memory."""


def choose_shapes(
    sizes: InputSizes,
    seconds_of: SecondsOfRun,
    bytes_of_run: Callable[[InputShapes], int],
    *,
    limit_s: float = math.inf,
    is_timed: bool = True,
) -> tuple[list[InputShapes], list[str]]:
    """Return the shapes at which to measure, the smallest first, and notices about sizes that were assumed.

    `bytes_of_run` estimates the memory of all values of a run. After `limit_s` seconds no dimension is doubled alone.
    Unless `is_timed`, notices say that sizes were compared.
    Raises CannotRun if the model runs at no assumed size, InputError if it runs at one end of a given range and not at
    the other.
    """
    deadline = time.monotonic() + limit_s
    grown = _Growth(sizes, seconds_of, bytes_of_run, deadline)
    try:
        low = grown.runnable(sizes.lower_ends)
    except (RanTooLong, DoesNotFit):
        raise
    except CannotRun:
        related = _with_a_sum(sizes, seconds_of, bytes_of_run, deadline)
        if related is None:
            raise
        sizes, grown = related
        low = grown.runnable(sizes.lower_ends)
    high = grown.at_upper_ends(low) if sizes.ranges else low
    if sizes.open:
        high = grown.doubled(high, list(sizes.open))
    points = [low]
    middle = sizes_between(low, high) if high != low else None
    if middle is not None and grown.runs(middle):
        points.append(middle)
    if high != low:
        points.append(high)
    return [sizes.shapes(point) for point in points], _notices(sizes, points, "measured" if is_timed else "compared")


def _with_a_sum(
    sizes: InputSizes,
    seconds_of: SecondsOfRun,
    bytes_of_run: Callable[[InputShapes], int],
    deadline: float,
) -> tuple[InputSizes, _Growth] | None:
    """Return sizes of which one is a sum of others so that the model runs, or None.

    It is to run where all others differ. But one size may have two names, as that of the keys and of the values in a
    cache; then where they agree. And a decoder may take one token at a time only, though its sizes are free; then at 1.
    """
    for choose in (_different_sizes, lambda sizes: sizes.assumed(_SIZE_OF_SUMMANDS), lambda sizes: sizes.assumed(1)):
        for related in itertools.islice(sizes.with_sums(), _MAX_SUMS):
            grown = _Growth(related, seconds_of, bytes_of_run, deadline)
            if grown.runs(related.lower_ends | choose(related)):
                return related, grown
    return None


def _different_sizes(sizes: InputSizes) -> dict[str, int]:
    """Return sizes of the open dimensions: no two agree, and none is 1 and could be broadcast, but for batches."""
    ones = sizes.assumed(1)
    return {d: ones[d] if is_first else _SIZE_OF_SUMMANDS + 2 * k for k, (d, is_first) in enumerate(sizes.open.items())}


def fitting_sizes(sizes: InputSizes, bytes_of_run: Callable[[InputShapes], int]) -> Iterator[InputShapes]:
    """Yield shapes at which a model may run that runs at no small equal ones, with given ranges at their lower ends."""
    lows = sizes.lower_ends
    for assumed, is_bounded in _assumed(sizes):
        shapes = sizes.shapes({**lows, **assumed})
        if not is_bounded or bytes_of_run(shapes) <= _MAX_BYTES_OF_RUN:
            yield shapes
    for related in itertools.islice(sizes.with_sums(), _MAX_SUMS):
        yield related.shapes({**lows, **_different_sizes(related)})


def _assumed(sizes: InputSizes) -> Iterator[tuple[dict[str, int], bool]]:
    """Yield sizes of the open dimensions to begin with, and True where a run may need too much memory."""
    for size in _ASSUMED_SIZES:
        yield sizes.assumed(size), False
    for size in _ASSUMED_LENGTHS:  # too long for the sides of an image
        yield sizes.assumed(size), True
    for size in (*_ASSUMED_SIZES, *_ASSUMED_LENGTHS):  # the first axis may be no batch: a signal alone, a sequence
        yield dict.fromkeys(sizes.open, size), True


class _Growth:
    """Finds sizes at which the model runs."""

    def __init__(
        self,
        sizes: InputSizes,
        seconds_of: SecondsOfRun,
        bytes_of_run: Callable[[InputShapes], int],
        deadline: float,
    ) -> None:
        self._sizes, self._seconds_of, self._bytes_of_run = sizes, seconds_of, bytes_of_run
        self._deadline = deadline

    def _seconds(self, point: Mapping[str, int]) -> float:
        shapes = self._sizes.shapes(point)
        _require_memory(self._sizes, shapes)
        return self._seconds_of(shapes)

    def runs(self, point: Mapping[str, int]) -> bool:
        """Return True if the model runs at these sizes."""
        try:
            self._seconds(point)
        except CannotRun:
            return False
        return True

    def runnable(self, lows: Mapping[str, int]) -> dict[str, int]:
        """Return `lows` with the smallest assumed size of open dimensions at which the model runs.

        Raises the CannotRun of size 1 if the model runs at none, InputError if it runs at the upper ends of ranges.
        """
        first: CannotRun | None = None
        tried: list[dict[str, int]] = []
        for assumed, is_bounded in _assumed(self._sizes):
            point = {**lows, **assumed}
            if point in tried or (is_bounded and self._bytes_of_run(self._sizes.shapes(point)) > _MAX_BYTES_OF_RUN):
                continue
            tried.append(point)
            try:
                self._seconds(point)
            except RanTooLong:  # larger sizes take no less
                raise
            except CannotRun as error:
                first = first or error
                continue
            return point
        assert first is not None
        highs = {d: range.high for d, range in self._sizes.ranges.items()}
        if highs and any(self.runs({**point, **highs}) for point in tried):
            raise self._refused(tried[0], first)
        raise first

    def at_upper_ends(self, low: Mapping[str, int]) -> dict[str, int]:
        """Return `low` with all ranges at their upper ends. Raises InputError if the model does not run there."""
        point = {**low, **{d: range.high for d, range in self._sizes.ranges.items()}}
        try:
            self._seconds(point)
        except CannotRun as error:
            raise self._refused(point, error) from None
        return point

    def _refused(self, point: Mapping[str, int], error: CannotRun) -> InputError:
        shapes = ", ".join(f"{name}={show_shape(shape)}" for name, shape in self._sizes.shapes(point).items())
        return InputError(f"the model does not run at an end of the given range, {shapes}: {error}")

    def doubled(self, begin: Mapping[str, int], dimensions: list[str]) -> dict[str, int]:
        """Return `begin` with `dimensions` doubled, all at once, as often as time and memory allow.

        If the model refuses larger sizes, all but batches are tried, and each dimension alone: others may be the ones
        that are bounded.
        """
        seconds = self._seconds(begin)
        max_seconds = max(_MAX_RUN_SECONDS, min(_MAX_SLOWDOWN * seconds, _MAX_SECONDS_OF_SLOW_RUN))
        largest = {d: _MAX_GROWTH * begin[d] for d in dimensions}
        grown, refused = dict(begin), False
        if seconds < max_seconds:
            grown, refused = self._doubled_together(grown, dimensions, largest, max_seconds)
        if refused and len(dimensions) > 1:
            inner = [d for d in dimensions if not self._sizes.open[d]]
            for group in (inner, *([d] for d in dimensions)):
                if time.monotonic() > self._deadline:
                    break
                grown, _ = self._doubled_together(grown, group, largest, max_seconds)
        return grown

    def _doubled_together(
        self, point: dict[str, int], dimensions: list[str], largest: Mapping[str, int], max_seconds: float
    ) -> tuple[dict[str, int], bool]:
        """Return `point` with `dimensions` doubled, and True if the model refuses more than that."""
        while True:
            larger = {**point, **{d: 2 * point[d] for d in dimensions}}
            if any(larger[d] > largest[d] for d in dimensions):
                return point, False
            if self._bytes_of_run(self._sizes.shapes(larger)) > _MAX_BYTES_OF_RUN:
                return point, False
            try:
                if self._seconds(larger) > max_seconds:
                    return point, False
            except RanTooLong:
                return point, False
            except CannotRun:
                return point, True
            point = larger


def _require_memory(sizes: InputSizes, shapes: InputShapes) -> None:
    """Raise CannotRun if an input does not fit into memory."""
    available = available_bytes()
    for spec in sizes.specs:
        needed = _COPIES_OF_INPUTS * bytes_of(TensorType("double", shapes[spec.name]))  # inputs are drawn as doubles
        if available is not None and needed > available:
            raise DoesNotFit(
                f"input {spec.name} of shape {show_shape(shapes[spec.name])} does not fit into memory"
                f" ({needed / 2**30:.3g} GiB)"
            )


def bytes_of_run(model: Model, shapes: InputShapes) -> int:
    """Return the bytes of all values that a run computes at `shapes`: no run needs more memory, besides weights."""
    sizes: dict[str, Size] = dict(model.at_shapes(shapes).sizes)
    types = [type for term in topological(model.outputs) if not term.is_constant for type in term.types]
    return sum(bytes_of(None if type is None else type.with_sizes(sizes)) for type in types)


def _notices(sizes: InputSizes, points: list[dict[str, int]], done: str) -> list[str]:
    if not sizes.open:
        return []
    assumed = [f"{d} = {', '.join(map(str, dict.fromkeys(point[d] for point in points)))}" for d in sizes.open]
    assumed += [sizes.sum_of] if sizes.sum_of else []
    return [f"dynamic sizes were {done} at {'; '.join(assumed)} (set them with --shape)"]
