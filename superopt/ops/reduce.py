"""Reductions over named axes: the operators' pages of the ONNX specification, `axes` and `keepdims` since 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Size, Sizes
from superopt.ops.algebra import Algebra
from superopt.ops.definition import Definition, average, difference, negative, sum_over
from superopt.ops.entry import composite, operator
from superopt.ops.typing import IllTyped, Need, axis_in, distinct_axes, floats, need_at_most, numbers


def _reduced(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    places = distinct_axes(attrs["axes"], len(x))
    if attrs["keepdims"]:
        return (tuple(1 if d in places else size for d, size in enumerate(x)),)
    return (tuple(size for d, size in enumerate(x) if d not in places),)


def _named(xs: list[Any], attrs: Mapping[str, Any], i: Sizes) -> tuple[Sizes, Callable[..., Any]]:
    """Return the sizes of the named axes, and x at output index i as a function of the indices along those axes."""
    x = xs[0]
    axes, keep = {axis % len(x.shape) for axis in attrs["axes"]}, attrs["keepdims"]
    rest = iter(j for d, j in enumerate(i) if not (keep and d in axes))
    index: list[Size | None] = [None if d in axes else next(rest) for d in range(len(x.shape))]

    def at(*k: Size) -> Any:
        own = iter(k)
        return x.at(*(next(own) if j is None else j for j in index))

    return tuple(size for d, size in enumerate(x.shape) if d in axes), at


@operator("ReduceSum", 1, 1, "axes keepdims=1", shape=_reduced, dtype=numbers, integers="floating")
def _reduce_sum(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum x."""
    return sum_over(g, *_named(xs, attrs, i))


@operator("ReduceProd", 1, 1, "axes keepdims=1", shape=_reduced, dtype=numbers, integers="floating")
def _reduce_prod(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """product x."""

    def over(sizes: Sizes, body: Callable[..., Any]) -> Any:
        if not sizes:
            return body()
        return g.product(sizes[0], lambda k: over(sizes[1:], lambda *rest: body(k, *rest)))

    return over(*_named(xs, attrs, i))


def _reduced_some(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """The shape rule of reductions that need at least one element, such as the maximum."""
    (x,) = shapes
    for axis in attrs["axes"]:
        need_at_most(need, 1, x[axis_in(axis, len(x))])
    return _reduced(shapes, attrs, need)


@operator("ReduceMax", 1, 1, "axes keepdims=1", shape=_reduced_some)
def _reduce_max(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """max x; False < True (since 20)."""
    sizes, at = _named(xs, attrs, i)
    return g.supremum(sizes, lambda *k: [], at)


@operator("ReduceMin", 1, 1, "axes keepdims=1", shape=_reduced_some)
def _reduce_min(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """-max -x."""
    sizes, at = _named(xs, attrs, i)
    return negative(g, g.supremum(sizes, lambda *k: [], lambda *k: negative(g, at(*k))))


def _placed(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    return _reduced_some(shapes, {"axes": (attrs["axis"],), "keepdims": attrs["keepdims"]}, need)


def _place(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    numbers(dtypes, attrs, default)
    return "int64"


def _place_of_extremum(least: bool) -> Definition:
    """Return the definition of ArgMax-13 or (`least`) ArgMin-13, which is the same with the minimum.

    The last place of the maximum is the largest k with x[k] = max x, and the first place is the largest from the end.
    """

    def define(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
        (size,), at = _named(xs, {"axes": (attrs["axis"],), "keepdims": attrs["keepdims"]}, i)
        zero = g.constant(Fraction(0))
        if least:
            extremum = negative(g, g.supremum((size,), lambda k: [], lambda k: negative(g, at(k))))
        else:
            extremum = g.supremum((size,), lambda k: [], at)

        def place(k: Size) -> Any:
            counted = g.size(k if attrs["select_last_index"] else size - 1 - k)
            return g.choose("==", difference(g, at(k), extremum), counted, zero)

        found = g.supremum((size,), lambda k: [], place)
        return found if attrs["select_last_index"] else difference(g, g.size(size - 1), found)

    return define


_PLACE = "axis=0 keepdims=1 select_last_index=0"
operator("ArgMax", 1, 1, _PLACE, shape=_placed, dtype=_place, in_range=True)(_place_of_extremum(False))
operator("ArgMin", 1, 1, _PLACE, shape=_placed, dtype=_place, in_range=True)(_place_of_extremum(True))


# Real numbers only: ONNX does not define the rounding of a mean, a root or a logarithm of integers.
@operator("ReduceMean", 1, 1, "axes keepdims=1", shape=_reduced_some, dtype=floats)
def _reduce_mean(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """(sum x) / n, for n elements."""
    return average(g, *_named(xs, attrs, i))


def _composed(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """The shape rule of reductions that also apply a function. Over no axis, only the function is canonical."""
    if not attrs["axes"]:
        raise IllTyped("a composed reduction over no axis")
    return _reduced_some(shapes, attrs, need)


composite(
    "ReduceL1", 1, 1, "axes keepdims=1",
    "ReduceL1(x) = ReduceSum[axes=axes, keepdims=keepdims](Abs(x))",
    shape=_composed, dtype=numbers, integers="floating",
)  # fmt: skip
composite(
    "ReduceL2", 1, 1, "axes keepdims=1",
    "ReduceL2(x) = Sqrt(ReduceSumSquare[axes=axes, keepdims=keepdims](x))",
    shape=_composed, dtype=floats,
)  # fmt: skip
composite(
    "ReduceSumSquare", 1, 1, "axes keepdims=1",
    "ReduceSumSquare(x) = ReduceSum[axes=axes, keepdims=keepdims](Mul(x, x))",
    shape=_composed, dtype=numbers, integers="floating",
)  # fmt: skip
composite(
    "ReduceLogSum", 1, 1, "axes keepdims=1",
    "ReduceLogSum(x) = Log(ReduceSum[axes=axes, keepdims=keepdims](x))",
    shape=_composed, dtype=floats,
)  # fmt: skip
composite(
    "ReduceLogSumExp", 1, 1, "axes keepdims=1",
    "ReduceLogSumExp(x) = Log(ReduceSum[axes=axes, keepdims=keepdims](Exp(x)))",
    shape=_composed, dtype=floats,
)  # fmt: skip
