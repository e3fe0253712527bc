"""Indices of a grid, and access to an operand at all indices at once, as a strided view if possible.

Reading a strided array at an index that is affine in the grid's variables gives a strided array again. So Transpose,
Slice, broadcasting, Reshape and the windows of a pooling copy nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, Union

import numpy as np

__all__ = [
    "Array", "DataNumbers", "FloorQuotient", "GridVariable", "Index", "OutOfBounds", "index_of", "on_last_axes", "read",
]  # fmt: skip

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class OutOfBounds(IndexError):
    """A definition reads an operand outside of its bounds."""


class GridVariable:
    """A variable with `low` <= i < `high` along one axis of the grid: number `position`, counted from the end."""

    __slots__ = ("high", "low", "position")

    def __init__(self, position: int, high: int) -> None:
        self.position, self.low, self.high = position, 0, high

    def bounds(self) -> tuple[int, int]:
        """Return the smallest and the largest value."""
        return self.low, self.high - 1

    def numbers(self) -> Array:
        """Return all values, along the variable's axis."""
        return np.arange(self.low, self.high).reshape(-1, *(1,) * (self.position - 1))


class FloorQuotient:
    """floor(numerator / denominator) of an index, for a division that is not exact."""

    __slots__ = ("denominator", "numerator")

    def __init__(self, numerator: Index, denominator: int) -> None:
        self.numerator, self.denominator = numerator, denominator

    def __hash__(self) -> int:
        return hash((self.numerator.offset, self.denominator))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FloorQuotient) or self.denominator != other.denominator:
            return False
        return self.numerator.offset == other.numerator.offset and self.numerator.terms == other.numerator.terms

    def bounds(self) -> tuple[int, int]:
        """Return a lower and an upper bound."""
        low, high = self.numerator.bounds()
        return low // self.denominator, high // self.denominator

    def numbers(self) -> Array:
        """Return the value at every place of the grid."""
        return np.asarray(self.numerator.numbers() // self.denominator)


class DataNumbers:
    """Elements of an integer array as indices along an axis of `size` elements: an array over the grid."""

    __slots__ = ("_size", "_values")

    def __init__(self, values: Array, size: int) -> None:
        self._values, self._size = values, size

    def bounds(self) -> tuple[int, int]:
        """Return a lower and an upper bound."""
        return 0, self._size - 1

    def numbers(self) -> Array:
        """Return the value at every place of the grid."""
        return self._values


Atom: TypeAlias = Union[GridVariable, FloorQuotient, DataNumbers]


class Index:
    """offset + sum of coefficient * atom: an index over the grid. It has the arithmetic that definitions use on sizes.

    Atoms are variables of the grid and quotients of indices.
    """

    __slots__ = ("offset", "terms")

    def __init__(self, offset: int, terms: Mapping[Atom, int]) -> None:
        self.offset, self.terms = offset, terms

    def __add__(self, other: int | Index) -> int | Index:
        if not isinstance(other, Index):
            return Index(self.offset + other, self.terms) if other else self
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            terms[atom] = terms.get(atom, 0) + coefficient
        return _built(self.offset + other.offset, terms)

    __radd__ = __add__

    def __mul__(self, other: int) -> int | Index:
        if other == 1:
            return self
        return _built(self.offset * other, {atom: c * other for atom, c in self.terms.items()})

    __rmul__ = __mul__

    def __neg__(self) -> int | Index:
        return self * -1

    def __sub__(self, other: int | Index) -> int | Index:
        return self + -other

    def __rsub__(self, other: int | Index) -> int | Index:
        return -self + other

    def __floordiv__(self, divisor: int) -> int | Index:
        """Return floor(self / divisor). Terms that the divisor divides exactly are moved out of the floor."""
        if divisor == 1:
            return self
        exact = {atom: c // divisor for atom, c in self.terms.items() if c % divisor == 0}
        rest = _built(self.offset % divisor, {atom: c for atom, c in self.terms.items() if c % divisor})
        whole = _built(self.offset // divisor, exact)
        if isinstance(rest, int):
            return whole
        low, high = rest.bounds()
        if low // divisor == high // divisor:
            return whole + low // divisor
        return whole + Index(0, {FloorQuotient(rest, divisor): 1})

    def bounds(self) -> tuple[int, int]:
        """Return a lower and an upper bound over the grid."""
        low = high = self.offset
        for atom, coefficient in self.terms.items():
            ends = [coefficient * end for end in atom.bounds()]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def numbers(self) -> Array:
        """Return the value at every place of the grid."""
        total: Any = self.offset
        for atom, coefficient in self.terms.items():
            total = total + coefficient * atom.numbers()
        return np.asarray(total)


def _built(offset: int, terms: Mapping[Atom, int]) -> int | Index:
    kept = {atom: coefficient for atom, coefficient in terms.items() if coefficient}
    return Index(offset, kept) if kept else offset


def on_last_axes(*places: Any) -> Any:
    """Return the array index with these positions or ranges on the last axes: `x[..., *places]`."""
    return (..., *places)


def index_of(variable: GridVariable) -> Index:
    """Return the index that is a single variable."""
    return Index(0, {variable: 1})


def read(x: Array, shape: Sequence[int], index: Sequence[int | Index], rank: int, stacked: int, masked: bool) -> Array:
    """Return the element at `index` of an operand of this shape, as an array over the grid.

    The stacked axes of `x` come before its tensor axes. `rank` is the rank of the output, `stacked` the number of
    stacked axes of the grid. With `masked`, only a part of the grid will be used, and indices out of bounds read any
    element. Raises OutOfBounds.
    """
    tensor = x.ndim - len(shape)
    place: Any = sum((step * own for own, step in zip(index, x.strides[tensor:], strict=True)), 0)
    if not isinstance(place, int) and not all(isinstance(atom, GridVariable) for atom in place.terms):
        if not x.flags.c_contiguous:  # in row-major order, the quotients of a reshaping may cancel
            return read(np.ascontiguousarray(x), shape, index, rank, stacked, masked)
        return _gathered(x, shape, index, rank, stacked, masked)
    ends = [step * (size - 1) for step, size in zip(x.strides[tensor:], shape, strict=True)]
    low, high = (place, place) if isinstance(place, int) else place.bounds()
    if low < sum(min(end, 0) for end in ends) or high > sum(max(end, 0) for end in ends):
        if masked:
            return _gathered(x, shape, index, rank, stacked, masked)
        if not isinstance(place, int) and any(atom.bounds()[0] > atom.bounds()[1] for atom in place.terms):
            return _view(x, tensor, place, rank, stacked)  # an empty view
        raise OutOfBounds(f"an index of shape {tuple(shape)}")
    return _view(x, tensor, place, rank, stacked)


def _view(x: Array, tensor: int, place: int | Index, rank: int, stacked: int) -> Array:
    """Return `x`, with `tensor` stacked axes, at a byte offset that is affine in the grid's variables."""
    terms: Mapping[Any, int] = {} if isinstance(place, int) else place.terms
    start = place if isinstance(place, int) else place.offset
    axes = max([rank + stacked, *(variable.position for variable in terms)])
    sizes, steps = [1] * axes, [0] * axes
    for k in range(1, tensor + 1):
        sizes[-rank - k], steps[-rank - k] = x.shape[tensor - k], x.strides[tensor - k]
    for variable, step in terms.items():
        sizes[-variable.position] = size = variable.high - variable.low
        steps[-variable.position] = step if size > 1 else 0  # a step that is never taken may be larger than any memory
        start += step * variable.low
    if 0 in sizes or not x.size:
        return np.zeros(sizes, x.dtype)
    return _strided(x, start, sizes, steps)


class _Memory:
    """A strided piece of an array's memory, as an object with NumPy's array interface."""

    def __init__(self, x: Array, start: int, sizes: Sequence[int], steps: Sequence[int]) -> None:
        known = x.__array_interface__
        # The interface has no name for a type of ml_dtypes, or one that NumPy cannot read.
        if x.dtype.isbuiltin != 1:
            known = {**known, "typestr": f"|V{x.itemsize}", "descr": [("", f"|V{x.itemsize}")]}
        pointer, constant = known["data"]
        self.base = x
        self.__array_interface__ = {
            **known, "data": (pointer + start, constant), "shape": tuple(sizes), "strides": tuple(steps)
        }  # fmt: skip


def _strided(x: Array, start: int, sizes: Sequence[int], steps: Sequence[int]) -> Array:
    result = np.asarray(_Memory(x, start, sizes, steps))
    return result if result.dtype == x.dtype else result.view(x.dtype)


def _gathered(
    x: Array, shape: Sequence[int], index: Sequence[int | Index], rank: int, stacked: int, masked: bool
) -> Array:
    """Return the element at `index`, by gathering elements (advanced indexing) instead of a view."""
    tensor, place = x.ndim - len(shape), np.zeros((), np.int64)
    for own, size in zip(index, shape, strict=True):
        numbers = np.asarray(own) if isinstance(own, int) else own.numbers()
        place = place * size + (numbers.clip(0, max(size - 1, 0)) if masked else numbers)
    place = place.reshape((1,) * (rank - place.ndim) + place.shape)
    bound = place.ndim - rank - stacked
    if bound > 0:  # the stacked axes between bound and output axes are of size 1
        place = place.reshape(place.shape[:bound] + place.shape[bound + stacked :])
    else:
        bound, place = 0, place.reshape(place.shape[place.ndim - rank :])
    found = x.reshape(*x.shape[:tensor], -1)[..., place]
    found = np.moveaxis(found, range(tensor), range(bound, bound + tensor)) if bound and tensor else found
    lifted = (*found.shape[:bound], *(1,) * (stacked - tensor), *found.shape[bound:])
    return found.reshape(lifted)
