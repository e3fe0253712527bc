"""Fused operators of ONNX Runtime's own domain, com.microsoft: each is named after the standard ones that it fuses.

`activation_alpha` and `activation_beta` are the parameters of the activation, in this order (0 where it has fewer);
a `scale` of 0 is the default, 1 / sqrt(size of a head).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ir.operators import conv, linear
from superopt.ir.operators.spec import IllTyped, Need, ShapeRule, axis_in, floats, need_at_most, need_equal, op

__all__ = ["SPECS"]

_RULES: Mapping[str, ShapeRule] = {spec.name: spec.shape_rule for family in (conv, linear) for spec in family.SPECS}
_ACTIVATIONS = ("HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Tanh")


def _same(need: Need, left: Sizes, right: Sizes, what: str) -> None:
    if len(left) != len(right):
        raise IllTyped(f"{what} of rank {len(left)} where {len(right)} is needed")
    for size, other in zip(left, right, strict=True):
        need_equal(need, size, other)


def _fused_matmul(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    turned = (attrs["transA"], attrs["transB"])
    # ONNX Runtime multiplies a transposed matrix and a vector as if the matrix were not transposed.
    if any(turned) and min(map(len, shapes)) < 2:
        raise IllTyped("FusedMatMul transposes matrices, not vectors")
    operands = [(*s[:-2], s[-1], s[-2]) if turn else s for s, turn in zip(shapes, turned, strict=True)]
    return _RULES["MatMul"](operands, {}, need)


def _fused_conv(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["activation"] not in (*_ACTIVATIONS, "Clip"):
        raise IllTyped(f"FusedConv has no activation {attrs['activation']!r}")
    (result,) = _RULES["Conv"](shapes[:3], attrs, need)
    if len(shapes) > 3 and shapes[3] is not None:
        _same(need, shapes[3], result, "FusedConv's Z")
    return (result,)


def _fused_gemm(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["activation"] not in _ACTIVATIONS:
        raise IllTyped(f"FusedGemm has no activation {attrs['activation']!r}")
    return _RULES["Gemm"](shapes, attrs, need)


def _biased(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """The bias is one number for each place of the last axis."""
    x = shapes[0]
    if len(shapes) > 1 and shapes[1] is not None:
        if not x:
            raise IllTyped("a scalar has no axis for a bias")
        _same(need, shapes[1], x[-1:], "the bias")
    return (x,)


def _skip(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, skip, *params = shapes
    if len(x) not in (2, 3):
        raise IllTyped("what is normalised has two or three axes")
    rows = len(skip) == 2 and len(x) == 3
    batch = len(skip) == 3 and len(x) == 3 and skip[0] == 1
    _same(need, skip[-2:] if rows or batch else skip, x[-2:] if rows or batch else x, "the skip connection")
    for shape in params:
        if shape is not None:
            _same(need, shape, x[-1:], "a parameter of the normalisation")
    return (x,)


def _simplified(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, scale = shapes
    _same(need, scale, x[axis_in(attrs["axis"], len(x)) :], "the scale")
    return (x,)


def _heads(need: Need, size: Size, heads: Size) -> None:
    need_at_most(need, 1, heads)
    need_equal(need, size, floor_div(size, heads) * heads)


def _multi_head_attention(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    query, key, value = shapes
    if not len(query) == len(key) == len(value) == 3:
        raise IllTyped("MultiHeadAttention needs (batch, sequence, hidden) three times")
    _same(need, key, (query[0], value[1], query[2]), "the key")
    need_equal(need, value[0], query[0])
    for size in (query[2], value[2]):
        _heads(need, size, attrs["num_heads"])
    return ((query[0], query[1], value[2]),)


def _attention(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, weights, bias = shapes
    if len(x) != 3 or len(weights) != 2:
        raise IllTyped("Attention needs (batch, sequence, hidden) and a matrix")
    need_equal(need, x[2], weights[0])
    hidden = floor_div(weights[1], 3)
    need_equal(need, weights[1], hidden * 3)
    _same(need, bias, weights[1:], "the bias")
    _heads(need, hidden, attrs["num_heads"])
    return ((x[0], x[1], hidden),)


_ACTIVATION = "activation activation_alpha=0.0 activation_beta=0.0"

SPECS = (
    op("FusedMatMul", 2, 2, "alpha=1.0 transA=0 transB=0", shape=_fused_matmul, dtype=floats, domain="com.microsoft"),
    op(
        "FusedConv", 2, 4, f"{_ACTIVATION} dilations group=1 pads strides",
        shape=_fused_conv, dtype=floats, domain="com.microsoft",
    ),
    op(
        "FusedGemm", 2, 3, f"{_ACTIVATION} alpha=1.0 beta=1.0 transA=0 transB=0",
        shape=_fused_gemm, dtype=floats, domain="com.microsoft",
    ),
    op("BiasGelu", 2, 2, shape=_biased, dtype=floats, elementwise=True, domain="com.microsoft"),
    op("FastGelu", 1, 2, shape=_biased, dtype=floats, elementwise=True, domain="com.microsoft"),
    op("QuickGelu", 1, 1, "alpha=1.702", shape=_biased, dtype=floats, elementwise=True, domain="com.microsoft"),
    op("SkipLayerNormalization", 3, 5, "epsilon=1e-12", shape=_skip, dtype=floats, domain="com.microsoft"),
    op("SkipSimplifiedLayerNormalization", 3, 4, "epsilon=1e-12", shape=_skip, dtype=floats, domain="com.microsoft"),
    op("SimplifiedLayerNormalization", 2, 2, "axis=-1 epsilon=1e-05", shape=_simplified, dtype=floats),
    op(
        "MultiHeadAttention", 3, 3, "num_heads scale=0.0",
        shape=_multi_head_attention, dtype=floats, domain="com.microsoft",
    ),
    op("Attention", 3, 3, "num_heads scale=0.0", shape=_attention, dtype=floats, domain="com.microsoft"),
)  # fmt: skip
