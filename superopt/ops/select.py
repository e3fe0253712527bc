"""Operators that pick elements by position.

Gather has constant indices, a number or a list of numbers. A negative index counts from the end; the canonical form has
one only if the size is not known. Lookup is a Gather whose indices are the elements of an integer tensor.

Sources: the operators' pages of the ONNX specification, Gather-13, OneHot-11, Trilu-14, CumSum-14.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

from superopt.ir.dim import Size, Sizes
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.algebra import Algebra, at_least, equal
from superopt.ops.definition import Operand, difference
from superopt.ops.entry import operator
from superopt.ops.typing import IllTyped, Need, axis_in, need_at_most, need_equal, numbers, same, signed


def _gather_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), indices = shapes, attrs["indices"]
    axis = axis_in(attrs["axis"], len(x))
    places: Sequence[Size] = indices if isinstance(indices, tuple) else (indices,)
    for place in places:
        from_end = isinstance(place, int) and place < 0
        need_at_most(need, 0, place + x[axis] if from_end else place)
        need_at_most(need, place + 1, 0 if from_end else x[axis])
    return ((*x[:axis], *((len(indices),) if isinstance(indices, tuple) else ()), *x[axis + 1 :]),)


def _from_front(x: Operand, axis: int, place: Size) -> Size:
    return place + x.shape[axis] if isinstance(place, int) and place < 0 else place


@operator("Gather", 1, 1, "axis indices", shape=_gather_type)
def _gather(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[..., indices[p], ...] at position p of the axis; a single index removes the axis.

    Indices in equal steps become first + p * step, others a case for each position.
    """
    x, indices = xs[0], attrs["indices"]
    axis = attrs["axis"] % len(x.shape)
    if not isinstance(indices, tuple):
        return x.at(*i[:axis], _from_front(x, axis, indices), *i[axis:])
    places = [_from_front(x, axis, place) for place in indices]
    position = i[axis]

    def element(place: Size) -> Any:
        return x.at(*i[:axis], place, *i[axis + 1 :])

    steps = {after - before for before, after in pairwise(places)}
    if len(places) == 1:
        return element(places[0])
    if len(steps) == 1:
        return element(places[0] + position * steps.pop())
    pieces = [([equal(position, p)], partial(element, place)) for p, place in enumerate(places)]
    return g.piecewise(pieces, g.constant(Fraction(0)))


def _lookup_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, indices = shapes
    axis = axis_in(attrs["axis"], len(x))
    return ((*x[:axis], *indices, *x[axis + 1 :]),)


def _lookup_dtype(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """The type rule: values of any type, and indices of one of the two types that ONNX allows."""
    if dtypes[1] not in ("int32", "int64", None):
        raise IllTyped(f"indices of type {dtypes[1]}")
    return same(dtypes[:1], attrs, default)


@operator("Lookup", 2, 2, "axis=0", shape=_lookup_type, dtype=_lookup_dtype, index_operands=(1,))
def _lookup(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[..., indices[p, q, ...], ...]: the axes of the indices are in the place of the axis. Gather-13.

    A negative index counts from the end. One out of range stops the run with an error, even in an element that nothing
    reads.
    """
    x, indices = xs
    axis = attrs["axis"] % len(x.shape)
    after = axis + len(indices.shape)
    place = g.data_index(indices.at(*i[axis:after]), x.shape[axis])
    return x.at(*i[:axis], place, *i[after:])


def _one_hot_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    indices, values = shapes
    if len(values) != 1 or not indices:
        raise IllTyped("OneHot needs indices with an axis, and a list of two values")
    need_equal(need, values[0], 2)
    need_at_most(need, 1, attrs["depth"])
    place = axis_in(attrs["axis"], len(indices) + 1)
    return ((*indices[:place], attrs["depth"], *indices[place:]),)


def _one_hot_dtype(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """The type rule: integers, and values of the output's type."""
    if signed(dtypes[:1], attrs, "int64") in FLOAT_DTYPES:
        raise IllTyped("OneHot of real numbers depends on how they are rounded")
    return same(dtypes[1:], attrs, default)


@operator("OneHot", 2, 2, "axis=-1 depth", shape=_one_hot_type, dtype=_one_hot_dtype)
def _one_hot(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """values[1] at the place that the index names along the axis (a negative one counts from the end), else values[0].
    OneHot-11."""
    axis = attrs["axis"] % len(i)
    index, place, (off, on) = xs[0].at(*i[:axis], *i[axis + 1 :]), i[axis], (xs[1].at(0), xs[1].at(1))
    from_end = g.choose("==", difference(g, index, g.size(place - shape[axis])), on, off)
    return g.choose("==", difference(g, index, g.size(place)), on, from_end)


def _trilu_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if len(shapes[0]) < 2:
        raise IllTyped("Trilu needs matrices")
    return (shapes[0],)


@operator("Trilu", 1, 1, "k=0 upper=1", shape=_trilu_type)
def _trilu(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x[..., r, c] where c - r >= k (upper) or c - r <= k (lower), else 0."""
    diagonal, k = i[-1] - i[-2], attrs["k"]
    kept = at_least(diagonal, k) if attrs["upper"] else at_least(k, diagonal)
    return g.piecewise([([kept], lambda: xs[0].at(*i))], g.constant(Fraction(0)))


def _cumsum_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    axis_in(attrs["axis"], len(shapes[0]))
    return (shapes[0],)


@operator("CumSum", 1, 1, "axis exclusive=0 reverse=0", shape=_cumsum_type, dtype=numbers)
def _cumsum(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum of x[k] over k <= i along the axis; `exclusive` over k < i, `reverse` over k >= i, both over k > i."""
    axis = attrs["axis"] % len(i)
    count = (shape[axis] - i[axis] if attrs["reverse"] else i[axis] + 1) - (1 if attrs["exclusive"] else 0)
    first = (i[axis] + (1 if attrs["exclusive"] else 0)) if attrs["reverse"] else 0
    return g.summation(count, lambda k: xs[0].at(*i[:axis], first + k, *i[axis + 1 :]))
