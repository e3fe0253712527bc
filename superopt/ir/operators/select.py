"""Operators that pick elements by position.

Gather has constant indices, a number or a list of them; one that is below 0 counts from the end, and is so written
only where the size is not known. Resize repeats each element `scales` times along the last axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Size, Sizes
from superopt.ir.operators.spec import IllTyped, Need, axis_in, need_at_most, numbers, op

__all__ = ["SPECS"]


def _gather(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), indices = shapes, attrs["indices"]
    axis = axis_in(attrs["axis"], len(x))
    places: Sequence[Size] = indices if isinstance(indices, tuple) else (indices,)
    for place in places:
        from_end = isinstance(place, int) and place < 0
        need_at_most(need, 0, place + x[axis] if from_end else place)
        need_at_most(need, place + 1, 0 if from_end else x[axis])
    return ((*x[:axis], *((len(indices),) if isinstance(indices, tuple) else ()), *x[axis + 1 :]),)


def _trilu(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if len(shapes[0]) < 2:
        raise IllTyped("Trilu needs matrices")
    return (shapes[0],)


def _resize(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), scales = shapes, attrs["scales"]
    if len(scales) > len(x):
        raise IllTyped("Resize has more scales than axes")
    for scale in scales:
        need_at_most(need, 1, scale)
    kept = len(x) - len(scales)
    return ((*x[:kept], *(size * scale for size, scale in zip(x[kept:], scales, strict=True))),)


def _cumsum(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    axis_in(attrs["axis"], len(shapes[0]))
    return (shapes[0],)


SPECS = (
    op("Gather", 1, 1, "axis indices", shape=_gather),
    op("Trilu", 1, 1, "k=0 upper=1", shape=_trilu),
    op("Resize", 1, 1, "scales", shape=_resize),
    op("CumSum", 1, 1, "axis exclusive=0 reverse=0", shape=_cumsum, dtype=numbers),
)
