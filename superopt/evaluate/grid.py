"""The grid of an output: all its indices at once, as axes of arrays.

An array reading (see `reading`) represents the scalar of a definition as an array over the grid. The axes of the array
are, from the last one backwards: the output's axes, the stacked axes (independent computations, possibly none), and
one axis for each bound variable, the innermost first. An axis that the scalar does not depend on has size 1. Axes of
bound variables may be missing in front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from superopt.evaluate.indices import Array, GridVariable, Index, index_of, read
from superopt.ops.algebra import Guard
from superopt.ops.definition import Operand

__all__ = ["Grid", "GridRegion"]

# Elements of a scalar that fit into the processor's caches. A bound variable becomes an axis up to this number of
# elements, and a loop over such blocks beyond.
_ELEMENTS = 1 << 15


@dataclass(frozen=True)
class GridRegion:
    """A part of the grid: ranges of some variables, and further conditions on the points in these ranges."""

    ranges: Mapping[GridVariable, tuple[int, int]]
    conditions: Sequence[Guard]

    @property
    def whole(self) -> bool:
        """True if the part is the whole grid."""
        return not self.ranges and not self.conditions


class Grid:
    """The grid of one output. `stacked`: the number of stacked axes, `copies`: the number of elements along them."""

    def __init__(self, shape: Sequence[int], stacked: int = 0, copies: int = 1) -> None:
        self.shape, self.rank, self.stacked = tuple(shape), len(shape), stacked
        self.bound = 0  # axes of bound variables
        self._elements = copies
        for size in shape:
            self._elements *= size
        self._masked = 0
        variables = [GridVariable(self.rank - d, size) for d, size in enumerate(shape)]
        self.index: tuple[int | Index, ...] = tuple(map(index_of, variables))
        self._canonical = {index: v.position for index, v in zip(self.index, variables, strict=True)}

    def operand(self, x: Array, shape: Sequence[int], dtype: str) -> Operand:
        """Return an array as an operand of a definition. The stacked axes of the array come first."""
        sizes = tuple(shape)
        lifted = self._lifted(x, len(sizes))

        def at(*index: Any) -> Array:
            back = len(sizes)
            for own, size in zip(index, sizes, strict=True):
                if size != 1 if isinstance(own, int) else self._position(own, size) != back:
                    return read(x, sizes, index, self.rank, self.stacked, self._masked > 0)
                back -= 1
            return lifted

        return Operand(sizes, dtype, at)

    def _position(self, index: Index, size: int) -> int:
        """Return the axis, counted from the end, along which an index runs over 0 ... size - 1; 0 if there is none."""
        position = self._canonical.get(index, 0)
        if position:
            (variable,) = index.terms
            if variable.bounds() != (0, size - 1):
                return 0
        return position

    def _lifted(self, x: Array, rank: int) -> Array:
        """Return `x` with axes of size 1 added between its stacked axes and its `rank` tensor axes, to fit the grid."""
        tensor = x.ndim - rank
        if tensor == self.stacked and (rank == self.rank or (rank < self.rank and not tensor)):
            return x
        sizes = x.shape[tensor:]
        if rank > self.rank:
            if any(size != 1 for size in sizes[: rank - self.rank]):
                return x  # no index of the output reads it without a bound variable
            sizes = sizes[rank - self.rank :]
        return x.reshape((1,) * (self.stacked - tensor) + x.shape[:tensor] + (1,) * (self.rank - rank) + sizes)

    def blocks(self, size: int, single: bool = False) -> Iterator[tuple[Any, int]]:
        """Yield the values of a bound variable 0 ... size - 1 in blocks, with the number of values in each block.

        A block is one number, or an index that runs over several values along a new axis. With `single`, all blocks are
        numbers.
        """
        length = 1 if single else max(1, min(size, _ELEMENTS // max(1, self._elements)))
        if length == 1:
            yield from ((k, 1) for k in range(size))
            return
        self.bound += 1
        elements = self._elements
        variable = GridVariable(self.rank + self.stacked + self.bound, size)
        index = index_of(variable)
        for start in range(0, size, length):
            variable.low, variable.high = start, min(size, start + length)
            self._elements = elements * (variable.high - start)
            yield index, variable.high - start
        self.bound -= 1
        self._elements = elements

    def region(self, conditions: Sequence[Guard]) -> GridRegion | None:
        """Return the part of the grid where all conditions hold, or None if it is empty."""
        ranges: dict[GridVariable, tuple[int, int]] = {}
        others = []
        for guard in conditions:
            value: Any = guard.value
            low, high = (value, value) if isinstance(value, int) else value.bounds()
            if high < 0 or (guard.relation == "==" and low > 0):
                return None
            if low >= 0 and (guard.relation == "<=" or low == high == 0):
                continue
            variable, *more = value.terms
            if more or not isinstance(variable, GridVariable):
                others.append(guard)
                continue
            start, stop = ranges.get(variable, (variable.low, variable.high))
            first, last = _solved(value.offset, value.terms[variable], guard.relation)
            ranges[variable] = (
                start if first is None else max(start, first),
                stop if last is None else min(stop, last + 1),
            )
        if any(start >= stop for start, stop in ranges.values()):
            return None
        return GridRegion(ranges, others)

    def within(self, region: GridRegion, body: Callable[[], Any]) -> tuple[Any, Array | None]:
        """Return the value of `body` over the ranges of `region`, and a mask of its conditions (None if none)."""
        before = {variable: (variable.low, variable.high) for variable in region.ranges}
        for variable, (low, high) in region.ranges.items():
            variable.low, variable.high = low, high
        self._masked += bool(region.conditions)
        try:
            mask: Any = None
            for guard in region.conditions:
                value: Any = guard.value
                numbers = self._placed(value.numbers())
                holds = numbers == 0 if guard.relation == "==" else numbers >= 0
                mask = holds if mask is None else mask & holds
            return body(), mask
        finally:
            self._masked -= bool(region.conditions)
            for variable, (low, high) in before.items():
                variable.low, variable.high = low, high

    def _placed(self, numbers: Array) -> Array:
        """Return numbers over the grid with axes of size 1 in front, to have all output and stacked axes."""
        return numbers.reshape((1,) * (self.rank + self.stacked - numbers.ndim) + numbers.shape)

    def extended(self, shape: tuple[int, ...], region: GridRegion) -> tuple[int, ...]:
        """Return the shape over the whole grid of an array that has the shape `shape` over `region`."""
        axes = max([len(shape), *(variable.position for variable in region.ranges)])
        sizes = [1] * (axes - len(shape)) + list(shape)
        for variable in region.ranges:
            sizes[-variable.position] = variable.high - variable.low
        return tuple(sizes)

    def slices(self, axes: int, region: GridRegion) -> tuple[slice, ...]:
        """Return the slices of `region` in an array with `axes` axes over the whole grid."""
        slices = [slice(None)] * axes
        for variable, (low, high) in region.ranges.items():
            slices[-variable.position] = slice(low - variable.low, high - variable.low)
        return tuple(slices)


def _solved(offset: int, step: int, relation: str) -> tuple[int | None, int | None]:
    """Return the least and the largest i with 0 <= offset + step * i (or 0 == ..., by `relation`); None: no bound."""
    if relation == "==":
        return (-offset // step, -offset // step) if offset % step == 0 else (0, -1)
    return (-(offset // step), None) if step > 0 else (None, offset // -step)
