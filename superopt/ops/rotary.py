"""Rotation of pairs of elements by angles, given by their cosines and sines: the positions of tokens in attention.

x is (batch, heads, sequence, size), or (batch, sequence, heads * size) if `num_heads` is given. A pair is an element of
the first half and one of the second, or, if `interleaved`, two neighbours.

Source: the operator's page of the ONNX specification, RotaryEmbedding-23, without position ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Sizes, floor_div
from superopt.ops.entry import composite
from superopt.ops.typing import IllTyped, Need, floats, need_at_most, need_equal


def _rotary_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x, cos, sin), heads = shapes, attrs["num_heads"]
    has_axis = heads == 0  # a symbol stands for 1 or more
    if len(cos) != 3 or len(sin) != 3 or len(x) != (4 if has_axis else 3):
        raise IllTyped(
            "RotaryEmbedding needs (batch, sequence, half) twice, and heads along an axis or as an attribute"
        )
    if not has_axis:
        need_at_most(need, 1, heads)
        size = floor_div(x[2], heads)
        need_equal(need, x[2], size * heads)
    else:
        size = x[3]
    for own, other, full in zip(cos, sin, (x[0], x[-2], None), strict=True):
        need_equal(need, own, other)
        if full is not None:
            need_equal(need, own, full)
    need_equal(need, size, cos[2] * 2)
    return (x,)


_ROTATED = "Sub(Mul(c, y.0), Mul(s, y.1))", "Add(Mul(s, y.0), Mul(c, y.1))"


def _where(parts: str, axes: str) -> str:
    return f" where y = {parts}, c = Unsqueeze[axes={axes}](cos), s = Unsqueeze[axes={axes}](sin)"


composite(
    "RotaryEmbedding", 3, 3, "interleaved=0 num_heads=0",
    "RotaryEmbedding[interleaved=0, num_heads=0](x, cos, sin) = Concat[axis=-1]({}, {})".format(*_ROTATED)
    + _where("Split[axis=-1, split=[cos.shape[2], cos.shape[2]]](x)", "[-3]"),
    "RotaryEmbedding[num_heads=0](x, cos, sin) = Reshape[shape=x.shape](Concat[axis=-1]({}, {}))".format(*_ROTATED)
    + _where("Split[axis=-1, split=[1, 1]](Reshape[shape=[0, 0, 0, -1, 2]](x))", "[-4, -1]"),
    "RotaryEmbedding(x, cos, sin) = Reshape[shape=[0, 0, x.shape[2]]](Transpose[perm=[0, 2, 1, 3]]("
    "RotaryEmbedding[interleaved=interleaved, num_heads=0](y, cos, sin)))"
    " where y = Transpose[perm=[0, 2, 1, 3]](Reshape[shape=[0, 0, num_heads, -1]](x))",
    shape=_rotary_type, dtype=floats,
)  # fmt: skip
