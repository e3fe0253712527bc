"""Operators that move, cut and join data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from superopt.ir.dim import Size, Sizes
from verify.algebra import Algebra, Piece
from verify.semantics.common import Definition, inside, number

__all__ = ["DEFINITIONS"]


def _concat(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x_j[i - offset_j] where offset_j <= i < offset_j + size_j along the axis."""
    axis = attrs["axis"] % len(shape)
    pieces: list[Piece] = []
    offset: Size = 0
    for x in xs:
        own = (*i[:axis], i[axis] - offset, *i[axis + 1 :])
        pieces.append((inside(own[axis], 0, x.shape[axis]), partial(x.at, *own)))
        offset = offset + x.shape[axis]
    return g.piecewise(pieces, None)


def _split(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Output j is x[i + split_0 + ... + split_(j-1)] along the axis (j comes as attribute `index`)."""
    axis, offset = attrs["axis"] % len(shape), 0
    for size in attrs["split"][: attrs["index"]]:
        offset = offset + size
    return xs[0].at(*i[:axis], i[axis] + offset, *i[axis + 1 :])


def _slice(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[start + i * step] along each named axis."""
    own = list(i)
    for axis, start, step in zip(attrs["axes"], attrs["starts"], attrs["steps"], strict=True):
        own[axis] = start + own[axis] * step
    return xs[0].at(*own)


def _transpose(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Output axis d is input axis perm[d]."""
    own = list(i)
    for d, p in enumerate(attrs["perm"]):
        own[p] = i[d]
    return xs[0].at(*own)


def _pad(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[i - begin] inside x, `value` elsewhere; negative pads crop."""
    x, value, pads = xs[0], attrs["value"], attrs["pads"]
    begins, ends = pads[: len(i)], pads[len(i) :]
    own = tuple(j - begin for j, begin in zip(i, begins, strict=True))
    # Where an axis is not padded, every index of the output is inside.
    padded = [d for d, pair in enumerate(zip(begins, ends, strict=True)) if pair != (0, 0)]
    conditions = [guard for d in padded for guard in inside(own[d], 0, x.shape[d])]
    return g.piecewise([(conditions, lambda: x.at(*own))], number(g, value))


def _unsqueeze(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """The new axes' indices are dropped."""
    new = {axis % len(shape) for axis in attrs["axes"]}
    return xs[0].at(*(j for d, j in enumerate(i) if d not in new))


def _squeeze(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """The removed axes are read at 0."""
    removed, rest = {axis % len(xs[0].shape) for axis in attrs["axes"]}, iter(i)
    return xs[0].at(*(0 if d in removed else next(rest) for d in range(len(xs[0].shape))))


DEFINITIONS: Mapping[str, Definition] = {
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Transpose": _transpose,
    "Pad": _pad,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
}
