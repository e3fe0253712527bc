"""Reductions over named axes: the operators' pages of the ONNX specification, `axes` and `keepdims` since 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from superopt.ir.dim import Size, Sizes
from verify.algebra import Algebra
from verify.semantics.common import Definition, negative

__all__ = ["DEFINITIONS", "average", "sum_over"]


def sum_over(g: Algebra, sizes: Sizes, body: Callable[..., Any]) -> Any:
    """sum over all 0 <= k_d < sizes[d] of body(k_1, k_2, ...)."""
    if not sizes:
        return body()
    return g.summation(sizes[0], lambda k: sum_over(g, sizes[1:], lambda *rest: body(k, *rest)))


def average(g: Algebra, sizes: Sizes, body: Callable[..., Any]) -> Any:
    """`sum_over` divided by the number of its terms."""
    count: Size = 1
    for size in sizes:
        count = count * size
    return g.multiply(sum_over(g, sizes, body), g.apply("reciprocal", g.size(count)))


def _named(xs: list[Any], attrs: Mapping[str, Any], i: Sizes) -> tuple[Sizes, Callable[..., Any]]:
    """The sizes of the named axes, and x at output index i as a function of the indices along those axes."""
    x = xs[0]
    axes, keep = {axis % len(x.shape) for axis in attrs["axes"]}, attrs["keepdims"]
    rest = iter(j for d, j in enumerate(i) if not (keep and d in axes))
    index: list[Size | None] = [None if d in axes else next(rest) for d in range(len(x.shape))]

    def at(*k: Size) -> Any:
        own = iter(k)
        return x.at(*(next(own) if j is None else j for j in index))

    return tuple(size for d, size in enumerate(x.shape) if d in axes), at


def _reduce_sum(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum x."""
    return sum_over(g, *_named(xs, attrs, i))


def _reduce_mean(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """(sum x) / n, of n elements."""
    return average(g, *_named(xs, attrs, i))


def _reduce_prod(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """product x."""

    def over(sizes: Sizes, body: Callable[..., Any]) -> Any:
        if not sizes:
            return body()
        return g.product(sizes[0], lambda k: over(sizes[1:], lambda *rest: body(k, *rest)))

    return over(*_named(xs, attrs, i))


def _reduce_max(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """max x; False < True (since 20)."""
    sizes, at = _named(xs, attrs, i)
    return g.supremum(sizes, lambda *k: [], at)


def _reduce_min(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """-max -x."""
    sizes, at = _named(xs, attrs, i)
    return negative(g, g.supremum(sizes, lambda *k: [], lambda *k: negative(g, at(*k))))


def _reduce_l1(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum |x|."""
    sizes, at = _named(xs, attrs, i)
    return sum_over(g, sizes, lambda *k: g.maximum([at(*k), negative(g, at(*k))]))


def _reduce_sum_square(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum x * x."""
    sizes, at = _named(xs, attrs, i)
    return sum_over(g, sizes, lambda *k: g.multiply(at(*k), at(*k)))


def _reduce_l2(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sqrt(sum x * x)."""
    return g.apply("sqrt", _reduce_sum_square(g, xs, attrs, shape, i))


def _reduce_log_sum(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """log(sum x)."""
    return g.apply("log", _reduce_sum(g, xs, attrs, shape, i))


def _reduce_log_sum_exp(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """log(sum exp(x))."""
    sizes, at = _named(xs, attrs, i)
    return g.apply("log", sum_over(g, sizes, lambda *k: g.apply("exp", at(*k))))


DEFINITIONS: Mapping[str, Definition] = {
    "ReduceSum": _reduce_sum,
    "ReduceMean": _reduce_mean,
    "ReduceProd": _reduce_prod,
    "ReduceMax": _reduce_max,
    "ReduceMin": _reduce_min,
    "ReduceL1": _reduce_l1,
    "ReduceL2": _reduce_l2,
    "ReduceSumSquare": _reduce_sum_square,
    "ReduceLogSum": _reduce_log_sum,
    "ReduceLogSumExp": _reduce_log_sum_exp,
}
