"""Pooling.

`ceil_mode` is not an attribute here: more padding at the end gives the same windows, and that is the canonical form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ir.operators.spec import IllTyped, Need, floats, need_at_most, numbers, op

__all__ = ["SPECS"]


def _pool(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), spatial = shapes, len(shapes[0]) - 2
    kernel, dilations, strides, pads = (attrs[name] for name in ("kernel_shape", "dilations", "strides", "pads"))
    if spatial < 1 or {len(kernel), len(dilations), len(strides)} != {spatial} or len(pads) != 2 * spatial:
        raise IllTyped("the ranks of a pooling do not fit")
    for positive in (*kernel, *dilations, *strides):
        need_at_most(need, 1, positive)
    result: list[Size] = [x[0], x[1]]
    for d, size in enumerate(x[2:]):
        begin, end = pads[d], pads[spatial + d]
        if (begin, end) != (0, 0):
            # No window may lie in the padding alone: it has no largest element and no average. ONNX Runtime refuses
            # pads that are not below the kernel's size, and with those a window can only step over all of x.
            for pad in (begin, end):
                need_at_most(need, 0, pad)
                need_at_most(need, pad, kernel[d] - 1)
            if dilations[d] != 1:
                need_at_most(need, dilations[d], size)
        room = size + begin + end - ((kernel[d] - 1) * dilations[d] + 1)
        need_at_most(need, 0, room)
        result.append(floor_div(room, strides[d]) + 1)
    return (tuple(result),)


def _global_pool(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    if len(x) < 3:
        raise IllTyped("a global pooling needs something to pool")
    for size in x[2:]:
        need_at_most(need, 1, size)
    return ((x[0], x[1], *(1 for _ in x[2:])),)


SPECS = (
    op("MaxPool", 1, 1, "dilations kernel_shape pads strides", shape=_pool, dtype=numbers),
    op("AveragePool", 1, 1, "count_include_pad=0 dilations kernel_shape pads strides", shape=_pool, dtype=floats),
    op("GlobalMaxPool", 1, 1, shape=_global_pool, dtype=floats),
    op("GlobalAveragePool", 1, 1, shape=_global_pool, dtype=floats),
)
