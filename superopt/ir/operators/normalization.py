"""Normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Sizes, floor_div
from superopt.ir.operators.spec import IllTyped, Need, axis_in, floats, need_at_most, need_equal, op

__all__ = ["SPECS"]


def _by_channel(shapes: Sequence[Sizes], least: int, need: Need) -> tuple[Sizes, ...]:
    x, *params = shapes
    if len(x) < least:
        raise IllTyped("a normalisation by channel needs a channel axis, and axes to work on")
    for shape in params:
        if len(shape) != 1:
            raise IllTyped("the parameters of a normalisation by channel are vectors")
        need_equal(need, shape[0], x[1])
    return (x,)


def _batch_normalization(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    return _by_channel(shapes, 2, need)


def _instance_normalization(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    return _by_channel(shapes, 3, need)


def _group_normalization(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    result, groups = _by_channel(shapes, 3, need), attrs["num_groups"]
    need_at_most(need, 1, groups)
    need_equal(need, shapes[0][1], floor_div(shapes[0][1], groups) * groups)
    return result


def _from_axis(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """Scale and bias broadcast to x, never x to them."""
    x, *params = shapes
    axis_in(attrs["axis"], len(x))
    for shape in params:
        if shape is None:
            continue
        if len(shape) > len(x):
            raise IllTyped("the scale has more axes than what it scales")
        for size, full in zip(reversed(shape), reversed(x), strict=False):
            if size != 1:
                need_equal(need, size, full)
    return (x,)


def _along_axis(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    axis_in(attrs["axis"], len(shapes[0]))
    return (shapes[0],)


def _lp_normalization(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["p"] not in (1, 2):
        raise IllTyped("LpNormalization knows p = 1 and p = 2")
    return _along_axis(shapes, attrs, need)


SPECS = (
    op("BatchNormalization", 5, 5, "epsilon=9.999999747378752e-06", shape=_batch_normalization, dtype=floats),
    op("InstanceNormalization", 3, 3, "epsilon=9.999999747378752e-06", shape=_instance_normalization, dtype=floats),
    op(
        "GroupNormalization", 3, 3, "epsilon=9.999999747378752e-06 num_groups", shape=_group_normalization, dtype=floats
    ),
    op("LayerNormalization", 2, 3, "axis=-1 epsilon=9.999999747378752e-06", shape=_from_axis, dtype=floats),
    op("RMSNormalization", 2, 2, "axis=-1 epsilon=9.999999747378752e-06", shape=_from_axis, dtype=floats),
    op("LpNormalization", 1, 1, "axis=-1 p=2", shape=_lp_normalization, dtype=floats),
    op("Softmax", 1, 1, "axis=-1", shape=_along_axis, dtype=floats),
    op("LogSoftmax", 1, 1, "axis=-1", shape=_along_axis, dtype=floats),
)
