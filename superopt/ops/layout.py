"""Layout operators: concatenate, split, slice, transpose, pad, and add or remove axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from superopt.ir.dim import Size, Sizes, ceil_div
from superopt.ops.algebra import Algebra, Piece, at_least, below
from superopt.ops.definition import inside, number
from superopt.ops.entry import operator
from superopt.ops.typing import IllTyped, Need, axis_in, distinct_axes, need_at_most, need_equal


def _concat_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
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


@operator("Concat", 1, None, "axis", shape=_concat_type)
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


def _split_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    axis, total = axis_in(attrs["axis"], len(x)), 0
    for size in attrs["split"]:
        need_at_most(need, 0, size)
        total = total + size
    need_equal(need, total, x[axis])
    return tuple((*x[:axis], size, *x[axis + 1 :]) for size in attrs["split"])


@operator("Split", 1, 1, "axis split", shape=_split_type, outputs=lambda attrs: len(attrs["split"]))
def _split(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Output j is x[i + split_0 + ... + split_(j-1)] along the axis (j comes as attribute `index`)."""
    axis, offset = attrs["axis"] % len(shape), 0
    for size in attrs["split"][: attrs["index"]]:
        offset = offset + size
    return xs[0].at(*i[:axis], i[axis] + offset, *i[axis + 1 :])


def _slice_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
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


@operator("Slice", 1, 1, "axes ends starts steps", shape=_slice_type)
def _slice(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[start + i * step] along each named axis."""
    own = list(i)
    for axis, start, step in zip(attrs["axes"], attrs["starts"], attrs["steps"], strict=True):
        own[axis] = start + own[axis] * step
    return xs[0].at(*own)


def _transpose_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    if sorted(attrs["perm"]) != list(range(len(x))):
        raise IllTyped(f"perm {attrs['perm']} does not fit rank {len(x)}")
    return (tuple(x[p] for p in attrs["perm"]),)


@operator("Transpose", 1, 1, "perm", shape=_transpose_type)
def _transpose(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x with input axis perm[d] as output axis d."""
    own = list(i)
    for d, p in enumerate(attrs["perm"]):
        own[p] = i[d]
    return xs[0].at(*own)


def _pad_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), pads = shapes, attrs["pads"]
    if len(pads) != 2 * len(x):
        raise IllTyped("Pad's pads do not fit its rank")
    result = tuple(begin + size + end for begin, size, end in zip(pads[: len(x)], x, pads[len(x) :], strict=True))
    for size in result:
        need_at_most(need, 0, size)
    return (result,)


@operator("Pad", 1, 1, "pads value=0.0", shape=_pad_type)
def _pad(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[i - begin] inside x, `value` elsewhere; negative pads crop."""
    x, value, pads = xs[0], attrs["value"], attrs["pads"]
    begins, ends = pads[: len(i)], pads[len(i) :]
    own = tuple(j - begin for j, begin in zip(i, begins, strict=True))
    # Along an axis without padding every output index is inside.
    padded = [d for d, pair in enumerate(zip(begins, ends, strict=True)) if pair != (0, 0)]
    conditions = [guard for d in padded for guard in inside(own[d], 0, x.shape[d])]
    return g.piecewise([(conditions, lambda: x.at(*own))], number(g, value))


_COPIES = ("edge", "reflect", "wrap")


def _pad_copy_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), pads, mode = shapes, attrs["pads"], attrs["mode"]
    if mode not in _COPIES or len(pads) != 2 * len(x):
        raise IllTyped(f"Pad has no mode {mode} with these pads")
    for pad, size in zip(pads, (*x, *x), strict=True):
        need_at_most(need, 0, pad)
        if pad != 0:
            need_at_most(need, 1, size)
            if mode != "edge":
                need_at_most(need, pad, size - 1 if mode == "reflect" else size)
    return (tuple(begin + size + end for begin, size, end in zip(pads[: len(x)], x, pads[len(x) :], strict=True)),)


@operator("PadCopy", 1, 1, "mode pads", shape=_pad_copy_type)
def _pad_copy(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """ONNX's Pad in the modes that copy elements of x, of size n: x[j] with j = i - begin inside. Before, with j < 0,
    "edge" copies x[0], "reflect" x[-j], "wrap" x[j + n]. After, with j >= n, they copy x[n - 1], x[2 (n - 1) - j] and
    x[j - n]. Pad-25."""
    x, mode, pads = xs[0], attrs["mode"], attrs["pads"]

    def over(axis: int, place: Sizes) -> Any:
        if axis == len(i):
            return x.at(*place)
        n, begin, end = x.shape[axis], pads[axis], pads[axis + len(i)]
        j = i[axis] - begin
        before = {"edge": 0, "reflect": -j, "wrap": j + n}[mode]
        after = {"edge": n - 1, "reflect": n * 2 - 2 - j, "wrap": j - n}[mode]
        pieces: list[Piece] = [(inside(j, 0, n) if (begin, end) != (0, 0) else [], lambda: over(axis + 1, (*place, j)))]
        if begin != 0:
            pieces.append(([below(j, 0)], lambda: over(axis + 1, (*place, before))))
        if end != 0:
            pieces.append(([at_least(j, n)], lambda: over(axis + 1, (*place, after))))
        return g.piecewise(pieces, None)

    return over(0, ())


def _unsqueeze_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    rank = len(shapes[0]) + len(attrs["axes"])
    places = {axis_in(axis, rank) for axis in attrs["axes"]}
    if len(places) != len(attrs["axes"]):
        raise IllTyped("Unsqueeze names an axis twice")
    rest = iter(shapes[0])
    return (tuple(1 if d in places else next(rest) for d in range(rank)),)


@operator("Unsqueeze", 1, 1, "axes", shape=_unsqueeze_type)
def _unsqueeze(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x at the index without the entries of the new axes."""
    new = {axis % len(shape) for axis in attrs["axes"]}
    return xs[0].at(*(j for d, j in enumerate(i) if d not in new))


def _squeeze_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    places = distinct_axes(attrs["axes"], len(x))
    for d in places:
        need_equal(need, x[d], 1)
    return (tuple(size for d, size in enumerate(x) if d not in places),)


@operator("Squeeze", 1, 1, "axes", shape=_squeeze_type)
def _squeeze(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x at the index with 0 inserted for each removed axis."""
    removed, rest = {axis % len(xs[0].shape) for axis in attrs["axes"]}, iter(i)
    return xs[0].at(*(0 if d in removed else next(rest) for d in range(len(xs[0].shape))))
