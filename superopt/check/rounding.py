"""Decides in float64 if the outputs of two models differ by more than their roundings.

Both models are evaluated in float64, where equal functions give equal numbers. Roundings that one model makes and the
other does not, such as those of weights that were folded before, are simulated: further evaluations multiply every
result, and every weight that the other model does not have, by 1 + 2 u N(0, 1), for the unit roundoff u of its type. An
output is different if in some group of its elements (the whole output, or a slice along an axis)

    size(left - right)  >  4 (largest over evaluations of size(simulated - exact)  +  u size(exact))

where the size is the largest element, or the root mean square: the one tells single elements, the other a small change
of all. u is at least 2^-40, as the evaluations are in float64 themselves. A rounding to nearest is at most u, so a
difference is at least about 8 times what roundings of every operator explain. Elements of other types are different if
they differ and no simulated rounding changes them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from superopt.runtime import flat, is_float, unit_roundoff

__all__ = ["NOISE", "Gap", "element", "find_gap"]

NOISE = 2.0  # size of a simulated rounding, in roundings
_FACTOR = 4.0
_LEAST_ROUNDOFF = 2.0**-40
_MIN_SLICE = 16  # elements; the largest rounding of fewer is a matter of luck

_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Gap:
    """The element at which two outputs differ most, relative to what roundings explain.

    `output` is the number of the output. `relative` is the difference relative to the largest element of the group,
    `rounding` is what roundings may explain of it; both are infinite or 0 where elements are not finite or not real.
    """

    output: int
    index: tuple[int, ...]
    left: Any
    right: Any
    relative: float
    rounding: float

    @property
    def excess(self) -> float:
        """The difference as a multiple of what roundings explain."""
        return self.relative / self.rounding if self.rounding else math.inf


def find_gap(
    left: Sequence[Any],
    right: Sequence[Any],
    simulated: Sequence[tuple[Sequence[Any], Sequence[Any]]],
    types: Sequence[Any],
    factor: float = _FACTOR,
) -> Gap | None:
    """Return the largest difference of two lists of outputs beyond roundings, or None.

    `simulated` are pairs of outputs with simulated roundings, of the left and of the right model. `types` are the
    element types of the outputs in the model; a type of None has the least roundoff.
    """
    draws = [(flat(a), flat(b)) for a, b in simulated]
    found: list[Gap] = []
    for number, (a, b, type) in enumerate(zip(flat(left), flat(right), types, strict=True)):
        pairs = [(one[number], two[number]) for one, two in draws]
        if a.shape != b.shape:
            found.append(Gap(number, (), a.shape, b.shape, math.inf, 0.0))
        elif a.size:
            gap = _real_gap(number, a, b, pairs, type, factor) if is_float(a.dtype) else _other_gap(number, a, b, pairs)
            found += [gap] if gap is not None else []
    return max(found, key=lambda gap: gap.excess, default=None)


def _other_gap(number: int, a: _Array, b: _Array, draws: Sequence[tuple[_Array, _Array]]) -> Gap | None:
    differs = a != b
    for one, two in draws:
        if one.shape != a.shape or two.shape != b.shape:
            return None
        differs &= (one == a) & (two == b)
    if not differs.any():
        return None
    index = _index(differs)
    return Gap(number, index, element(a, index), element(b, index), math.inf, 0.0)


def _real_gap(
    number: int, a: _Array, b: _Array, draws: Sequence[tuple[_Array, _Array]], type: Any, factor: float
) -> Gap | None:
    roundoff = _LEAST_ROUNDOFF if type is None else max(unit_roundoff(type), _LEAST_ROUNDOFF)
    with np.errstate(all="ignore"):
        finite, steady = np.isfinite(a) & np.isfinite(b), np.ones(a.shape, np.bool_)
        spread = np.zeros(a.shape)
        for pair in draws:
            for exact, drawn in zip((a, b), pair, strict=True):
                if drawn.shape != exact.shape:
                    return None
                steady &= np.isfinite(exact) == np.isfinite(drawn)
                error = np.abs(drawn - exact)
                spread = np.maximum(spread, np.where(finite & np.isfinite(drawn), error, 0.0))
        # Where B only is NaN, or one is infinite in another way, no rounding explains it. Nothing is asked where A is
        # NaN: it computes no number.
        special = steady & ~finite & ~((a == b) | np.isnan(a))
        if special.any():
            index = _index(special)
            return Gap(number, index, element(a, index), element(b, index), math.inf, 0.0)
        counted = finite & steady
        apart = np.where(counted, np.abs(a - b), 0.0)
        magnitude = np.where(counted, np.maximum(np.abs(a), np.abs(b)), 0.0)
    best: Gap | None = None
    for axis, size in itertools.product(_axes(a.shape), (_largest, _root_mean_square)):
        difference, explained, scale = (size(values, axis) for values in (apart, spread, magnitude))
        allowed = factor * (explained + roundoff * scale)
        with np.errstate(all="ignore"):
            ratio = np.where(difference > 0, difference / allowed, 0.0)
        k = int(np.argmax(ratio))
        if ratio[k] > max(1.0, best.excess if best is not None else 0.0):
            inside = apart if axis is None else np.take(apart, k, axis)
            index = _index(inside == inside.max())
            if axis is not None:
                index = (*index[:axis], k, *index[axis:])
            shares = float(difference[k] / scale[k]), float(allowed[k] / scale[k])
            best = Gap(number, index, element(a, index), element(b, index), *shares)
    return best


def _axes(shape: tuple[int, ...]) -> list[int | None]:
    """Return None for the whole output, and the axes along which slices have enough elements."""
    count = math.prod(shape)
    return [None, *(axis for axis, size in enumerate(shape) if size > 1 and count // size >= _MIN_SLICE)]


def _largest(values: _Array, axis: int | None) -> _Array:
    if axis is None:
        return np.asarray(values.max()).reshape(1)
    return np.asarray(values.max(axis=tuple(k for k in range(values.ndim) if k != axis)))


def _root_mean_square(values: _Array, axis: int | None) -> _Array:
    """Return the root mean square of each slice; values are scaled first, so that no square overflows."""
    scale = _largest(values, axis)
    shape = [1 if k != axis else -1 for k in range(values.ndim)]
    with np.errstate(all="ignore"):
        squares = np.square(np.nan_to_num(values / scale.reshape(shape)))
    others = None if axis is None else tuple(k for k in range(values.ndim) if k != axis)
    return np.asarray(scale * np.sqrt(squares.mean(axis=others)).reshape(scale.shape))


def element(array: _Array, index: tuple[int, ...]) -> Any:
    """Return an element as a Python object."""
    value = array[index]
    if isinstance(value, bytes):  # text, from evaluations in onnx.reference
        return value.decode(errors="replace")
    return value.item() if isinstance(value, np.generic) else value


def _index(mask: Any) -> tuple[int, ...]:
    """Return the first place where `mask` is True."""
    return tuple(int(k) for k in np.unravel_index(int(np.argmax(mask)), np.shape(mask)))
