"""Fused operators of ONNX Runtime's domain com.microsoft. Each is defined by equations over the operators it fuses.

`activation_alpha` and `activation_beta` are the first and second parameter of the activation, or 0 if it has none. A
`scale` of 0 stands for the default, 1 / sqrt(size of a head).

The source of each definition is the operator's page in ONNX Runtime's list of contributed operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ir.operator import OPERATORS
from superopt.ops.entry import composite
from superopt.ops.typing import IllTyped, Need, axis_in, floats, need_at_most, need_equal

_fused = partial(composite, dtype=floats, domain="com.microsoft")

_ACTIVATION = "activation activation_alpha=0.0 activation_beta=0.0"
_ACTIVATIONS = {
    "Clip": "Clip[bound_low=activation_alpha, bound_high=activation_beta]",
    "HardSigmoid": "HardSigmoid[alpha=activation_alpha, beta=activation_beta]",
    "LeakyRelu": "LeakyRelu[alpha=activation_alpha]",
    "Relu": "Relu",
    "Sigmoid": "Sigmoid",
    "Tanh": "Tanh",
}
_GEMM_ACTIVATIONS = {name: call for name, call in _ACTIVATIONS.items() if name != "Clip"}


def _same(need: Need, left: Sizes, right: Sizes, what: str) -> None:
    if len(left) != len(right):
        raise IllTyped(f"{what} of rank {len(left)} where {len(right)} is needed")
    for size, other in zip(left, right, strict=True):
        need_equal(need, size, other)


def _fused_matmul_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    turned = (attrs["transA"], attrs["transB"])
    # ONNX Runtime multiplies a transposed matrix and a vector as if the matrix were not transposed.
    if any(turned) and min(map(len, shapes)) < 2:
        raise IllTyped("FusedMatMul transposes matrices, not vectors")
    operands = [(*s[:-2], s[-1], s[-2]) if turn else s for s, turn in zip(shapes, turned, strict=True)]
    return OPERATORS["MatMul"].shape_rule(operands, {}, need)


_SWAPPED = "Transpose[perm=[range(0, {0}.rank - 2), {0}.rank - 1, {0}.rank - 2]]({0})"
_fused(
    "FusedMatMul", 2, 2, "alpha=1.0 transA=0 transB=0",
    "FusedMatMul[transA=0, transB=0](a, b) = Mul(alpha, MatMul(a, b))",
    f"FusedMatMul[transA=0](a, b) = FusedMatMul[alpha=alpha, transA=0, transB=0](a, {_SWAPPED.format('b')})",
    f"FusedMatMul(a, b) = FusedMatMul[alpha=alpha, transA=0, transB=transB]({_SWAPPED.format('a')}, b)",
    shape=_fused_matmul_type,
)  # fmt: skip


def _fused_conv_type(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["activation"] not in _ACTIVATIONS:
        raise IllTyped(f"FusedConv has no activation {attrs['activation']!r}")
    (result,) = OPERATORS["Conv"].shape_rule(shapes[:3], attrs, need)
    if len(shapes) > 3 and shapes[3] is not None:
        _same(need, shapes[3], result, "FusedConv's Z")
    return (result,)


_CONV = "Conv[dilations=dilations, group=group, pads=pads, strides=strides](x, w, b)"
_fused(
    "FusedConv", 2, 4, f"{_ACTIVATION} dilations group=1 pads strides",
    *(f'FusedConv[activation="{name}"](x, w, b) = {call}({_CONV})' for name, call in _ACTIVATIONS.items()),
    *(f'FusedConv[activation="{name}"](x, w, b, z) = {call}(Add({_CONV}, z))' for name, call in _ACTIVATIONS.items()),
    shape=_fused_conv_type,
)  # fmt: skip


def _fused_gemm_type(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["activation"] not in _GEMM_ACTIVATIONS:
        raise IllTyped(f"FusedGemm has no activation {attrs['activation']!r}")
    return OPERATORS["Gemm"].shape_rule(shapes, attrs, need)


_GEMM = "Gemm[alpha=alpha, beta=beta, transA=transA, transB=transB](a, b, c)"
_fused(
    "FusedGemm", 2, 3, f"{_ACTIVATION} alpha=1.0 beta=1.0 transA=0 transB=0",
    *(f'FusedGemm[activation="{name}"](a, b, c) = {call}({_GEMM})' for name, call in _GEMM_ACTIVATIONS.items()),
    shape=_fused_gemm_type,
)  # fmt: skip


def _biased(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """Check that there is a last axis, and that the bias has one number for each place of it."""
    x = shapes[0]
    if not x:
        raise IllTyped("a scalar has no axis for a bias")
    if len(shapes) > 1 and shapes[1] is not None:
        _same(need, shapes[1], x[-1:], "the bias")
    return (x,)


_fused(
    "BiasGelu", 2, 2, "",
    'BiasGelu(x, bias) = Gelu[approximate="none"](Add(x, bias))',
    shape=_biased, elementwise=True,
)  # fmt: skip
# The operator's page rounds the numbers to six digits.
_fused(
    "FastGelu", 1, 2, "",
    'FastGelu(x) = Gelu[approximate="tanh"](x)',
    'FastGelu(x, bias) = Gelu[approximate="tanh"](Add(x, bias))',
    shape=_biased, elementwise=True,
)  # fmt: skip
_fused(
    "QuickGelu", 1, 1, "alpha=1.702",
    "QuickGelu(x) = Mul(x, Sigmoid(Mul(alpha, x)))",
    shape=_biased, elementwise=True,
)  # fmt: skip


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
    return x, x


# The second output is the runtime's fourth; the two between have no definition.
_fused(
    "SkipLayerNormalization", 3, 5, "epsilon=1e-12",
    "SkipLayerNormalization(x, skip, gamma, beta) = "
    "(LayerNormalization[axis=-1, epsilon=epsilon](sum, gamma, beta), sum) where sum = Add(x, skip)",
    "SkipLayerNormalization(x, skip, gamma, beta, bias) = "
    "(LayerNormalization[axis=-1, epsilon=epsilon](sum, gamma, beta), sum) where sum = Sum(x, skip, bias)",
    shape=_skip, outputs=lambda attrs: 2,
)  # fmt: skip
_fused(
    "SkipSimplifiedLayerNormalization", 3, 4, "epsilon=1e-12",
    "SkipSimplifiedLayerNormalization(x, skip, gamma) = "
    "(RMSNormalization[axis=-1, epsilon=epsilon](sum, gamma), sum) where sum = Add(x, skip)",
    "SkipSimplifiedLayerNormalization(x, skip, gamma, bias) = "
    "(RMSNormalization[axis=-1, epsilon=epsilon](sum, gamma), sum) where sum = Sum(x, skip, bias)",
    shape=_skip, outputs=lambda attrs: 2,
)  # fmt: skip


def _simplified(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, scale = shapes
    _same(need, scale, x[axis_in(attrs["axis"], len(x)) :], "the scale")
    return (x,)


composite(
    "SimplifiedLayerNormalization", 2, 2, "axis=-1 epsilon=1e-05",
    "SimplifiedLayerNormalization(x, scale) = RMSNormalization[axis=axis, epsilon=epsilon](x, scale)",
    shape=_simplified, dtype=floats,
)  # fmt: skip


def _heads(need: Need, size: Size, heads: Size) -> None:
    need_at_most(need, 1, heads)
    need_equal(need, size, floor_div(size, heads) * heads)


def _multi_head_attention_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    query, key, value = shapes[:3]
    if not len(query) == len(key) == len(value) == 3:
        raise IllTyped("MultiHeadAttention needs (batch, sequence, hidden) three times")
    _same(need, key, (query[0], value[1], query[2]), "the key")
    need_equal(need, value[0], query[0])
    for size in (query[2], value[2]):
        _heads(need, size, attrs["num_heads"])
    bias, added = (*shapes[3:], None, None)[:2]
    if bias is not None:
        _same(need, bias, (query[2] + key[2] + value[2],), "the bias")
    if added is not None:
        _check_added(need, added, (query[0], attrs["num_heads"], query[1], key[1]))
    return ((query[0], query[1], value[2]),)


def _check_added(need: Need, added: Sizes, scores: Sizes) -> None:
    """Check the shape of what is added to scores of the shape (batch, heads, query, key)."""
    if len(added) != 4:
        raise IllTyped("what is added to scores has (batch, heads, query, key)")
    _same(need, added[2:], scores[2:], "what is added to scores")
    for size, full in zip(added[:2], scores[:2], strict=True):
        if size != 1:
            need_equal(need, size, full)


_ATTENDED = (
    "Reshape[shape=[0, 0, value.shape[2]]](Transpose[perm=[0, 2, 1, 3]](MatMul(p, v)))"
    " where p = Softmax[axis=-1]({0}),"
    " q = Transpose[perm=[0, 2, 1, 3]](Reshape[shape=[0, 0, num_heads, -1]](query)),"
    " k = Transpose[perm=[0, 2, 3, 1]](Reshape[shape=[0, 0, num_heads, -1]](key)),"
    " v = Transpose[perm=[0, 2, 1, 3]](Reshape[shape=[0, 0, num_heads, -1]](value))"
)
_SCORES = "Mul(scale, MatMul(q, k))"
# The bias holds those of query, key and value. `added` is ONNX Runtime's attention_bias, its sixth input; the input
# before it, a mask of keys, is not defined here: the runtime adds a large negative number, which is no real operation.
# The scale is the number that the runtime multiplies by; importers put it in where a file leaves it to the runtime.
_fused(
    "MultiHeadAttention", 3, 5, "num_heads scale=1.0",
    f"MultiHeadAttention(query, key, value) = {_ATTENDED.format(_SCORES)}",
    f"MultiHeadAttention(query, key, value, _, added) = {_ATTENDED.format(f'Add({_SCORES}, added)')}",
    "MultiHeadAttention(query, key, value, bias, added) = MultiHeadAttention[num_heads=num_heads, scale=scale]("
    "Add(query, b.0), Add(key, b.1), Add(value, b.2), _, added)"
    " where b = Split[axis=-1, split=[query.shape[2], key.shape[2], value.shape[2]]](bias)",
    shape=_multi_head_attention_type,
)  # fmt: skip


def _attention_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, weights, bias = shapes[:3]
    added = shapes[3] if len(shapes) > 3 else None
    if len(x) != 3 or len(weights) != 2:
        raise IllTyped("Attention needs (batch, sequence, hidden) and a matrix")
    need_equal(need, x[2], weights[0])
    hidden = floor_div(weights[1], 3)
    need_equal(need, weights[1], hidden * 3)
    _same(need, bias, weights[1:], "the bias")
    _heads(need, hidden, attrs["num_heads"])
    if added is not None:
        _check_added(need, added, (x[0], attrs["num_heads"], x[1], x[1]))
    return ((x[0], x[1], hidden),)


_PARTS = (
    " where y = Split[axis=-1, split=[weights.shape[1] // 3, weights.shape[1] // 3, weights.shape[1] // 3]]("
    "Add(MatMul(x, weights), bias))"
)
# The weights hold those of query, key and value side by side, and so does the bias. `added` is the sixth input, too.
_fused(
    "Attention", 3, 4, "num_heads scale=1.0",
    "Attention(x, weights, bias) = MultiHeadAttention[num_heads=num_heads, scale=scale](y.0, y.1, y.2)" + _PARTS,
    "Attention(x, weights, bias, added) = MultiHeadAttention[num_heads=num_heads, scale=scale](y.0, y.1, y.2, _, added)"
    + _PARTS,
    shape=_attention_type,
)  # fmt: skip
