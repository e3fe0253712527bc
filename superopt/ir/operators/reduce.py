"""Reductions over named axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ir.operators.spec import IllTyped, Need, axis_in, distinct_axes, floats, need_at_most, numbers, op

__all__ = ["SPECS"]


def _reduced(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    places = distinct_axes(attrs["axes"], len(x))
    if attrs["keepdims"]:
        return (tuple(1 if d in places else size for d, size in enumerate(x)),)
    return (tuple(size for d, size in enumerate(x) if d not in places),)


def _reduced_some(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """For reductions that have no value over nothing at all, such as the largest element."""
    (x,) = shapes
    for axis in attrs["axes"]:
        need_at_most(need, 1, x[axis_in(axis, len(x))])
    return _reduced(shapes, attrs, need)


def _composed(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """For reductions that do more than reduce: over no axis they are not the identity, which is how that is written."""
    if not attrs["axes"]:
        raise IllTyped("a composed reduction over no axis")
    return _reduced_some(shapes, attrs, need)


SPECS = (
    op("ReduceSum", 1, 1, "axes keepdims=1", shape=_reduced, dtype=numbers),
    op("ReduceProd", 1, 1, "axes keepdims=1", shape=_reduced, dtype=numbers),
    op("ReduceMax", 1, 1, "axes keepdims=1", shape=_reduced_some),
    op("ReduceMin", 1, 1, "axes keepdims=1", shape=_reduced_some),
    # Of integers ONNX does not say how a mean, a root or a logarithm is rounded.
    op("ReduceMean", 1, 1, "axes keepdims=1", shape=_reduced_some, dtype=floats),
    op("ReduceL1", 1, 1, "axes keepdims=1", shape=_composed, dtype=numbers),
    op("ReduceL2", 1, 1, "axes keepdims=1", shape=_composed, dtype=floats),
    op("ReduceSumSquare", 1, 1, "axes keepdims=1", shape=_composed, dtype=numbers),
    op("ReduceLogSum", 1, 1, "axes keepdims=1", shape=_composed, dtype=floats),
    op("ReduceLogSumExp", 1, 1, "axes keepdims=1", shape=_composed, dtype=floats),
)
