"""Operators that move, cut and join data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Size, Sizes, ceil_div
from superopt.ir.operators.spec import IllTyped, Need, axis_in, distinct_axes, need_at_most, need_equal, op

__all__ = ["SPECS"]


def _concat(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    axis = axis_in(attrs["axis"], len(shapes[0]))
    total: Size = 0
    for shape in shapes:
        if len(shape) != len(shapes[0]):
            raise IllTyped("Concat of different ranks")
        for d, (size, first) in enumerate(zip(shape, shapes[0], strict=True)):
            if d != axis:
                need_equal(need, size, first)
        total = total + shape[axis]
    return ((*shapes[0][:axis], total, *shapes[0][axis + 1 :]),)


def _split(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    axis, total = axis_in(attrs["axis"], len(x)), 0
    for size in attrs["split"]:
        need_at_most(need, 0, size)
        total = total + size
    need_equal(need, total, x[axis])
    return tuple((*x[:axis], size, *x[axis + 1 :]) for size in attrs["split"])


def _slice(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    shape = list(shapes[0])
    distinct_axes(attrs["axes"], len(shape))
    for axis, start, end, step in zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True):
        d = axis_in(axis, len(shape))
        if isinstance(step, int) and step < 0:
            # Canonical: -1 <= end <= start < size.
            need_at_most(need, -1, end)
            need_at_most(need, end, start)
            need_at_most(need, start + 1, shape[d])
            shape[d] = ceil_div(start - end, -step)
        else:
            # Canonical: 0 <= start <= end <= size; a symbolic step is positive.
            need_at_most(need, 1, step)
            need_at_most(need, 0, start)
            need_at_most(need, start, end)
            need_at_most(need, end, shape[d])
            shape[d] = ceil_div(end - start, step)
    return (tuple(shape),)


def _transpose(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    if sorted(attrs["perm"]) != list(range(len(x))):
        raise IllTyped(f"perm {attrs['perm']} does not fit rank {len(x)}")
    return (tuple(x[p] for p in attrs["perm"]),)


def _pad(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), pads = shapes, attrs["pads"]
    if len(pads) != 2 * len(x):
        raise IllTyped("Pad's pads do not fit its rank")
    result = tuple(begin + size + end for begin, size, end in zip(pads[: len(x)], x, pads[len(x) :], strict=True))
    for size in result:
        need_at_most(need, 0, size)
    return (result,)


def _unsqueeze(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    rank = len(shapes[0]) + len(attrs["axes"])
    places = {axis_in(axis, rank) for axis in attrs["axes"]}
    if len(places) != len(attrs["axes"]):
        raise IllTyped("Unsqueeze names an axis twice")
    rest = iter(shapes[0])
    return (tuple(1 if d in places else next(rest) for d in range(rank)),)


def _squeeze(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    places = distinct_axes(attrs["axes"], len(x))
    for d in places:
        need_equal(need, x[d], 1)
    return (tuple(size for d, size in enumerate(x) if d not in places),)


SPECS = (
    op("Concat", 1, None, "axis", shape=_concat),
    op("Split", 1, 1, "axis split", shape=_split, outputs=lambda attrs: len(attrs["split"])),
    op("Slice", 1, 1, "axes ends starts steps", shape=_slice),
    op("Transpose", 1, 1, "perm", shape=_transpose),
    op("Pad", 1, 1, "pads value=0.0", shape=_pad),
    op("Unsqueeze", 1, 1, "axes", shape=_unsqueeze),
    op("Squeeze", 1, 1, "axes", shape=_squeeze),
)
