"""Fused operators of ONNX Runtime's own domain, com.microsoft: each is named after the standard ones that it fuses.

`activation_alpha` and `activation_beta` are the parameters of the activation, in this order (0 where it has fewer);
a `scale` of 0 is the default, 1 / sqrt(size of a head).

Each docstring says which; the source is the operator's page in ONNX Runtime's list of contributed operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ir.operator import Operator
from superopt.ir.term import AttrVar
from superopt.ops import conv, elementwise, linear, normalization, scalar
from superopt.ops.algebra import Algebra
from superopt.ops.definition import Operand, broadcast, number
from superopt.ops.typing import IllTyped, Need, axis_in, floats, need_at_most, need_equal, op

__all__ = ["OPERATORS"]


_ACTIVATIONS = ("HardSigmoid", "LeakyRelu", "Relu", "Sigmoid", "Tanh")


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
    return _STANDARD["MatMul"].shape_rule(operands, {}, need)


def _fused_conv_type(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["activation"] not in (*_ACTIVATIONS, "Clip"):
        raise IllTyped(f"FusedConv has no activation {attrs['activation']!r}")
    (result,) = _STANDARD["Conv"].shape_rule(shapes[:3], attrs, need)
    if len(shapes) > 3 and shapes[3] is not None:
        _same(need, shapes[3], result, "FusedConv's Z")
    return (result,)


def _fused_gemm_type(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    if attrs["activation"] not in _ACTIVATIONS:
        raise IllTyped(f"FusedGemm has no activation {attrs['activation']!r}")
    return _STANDARD["Gemm"].shape_rule(shapes, attrs, need)


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


def _multi_head_attention_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    query, key, value = shapes
    if not len(query) == len(key) == len(value) == 3:
        raise IllTyped("MultiHeadAttention needs (batch, sequence, hidden) three times")
    _same(need, key, (query[0], value[1], query[2]), "the key")
    need_equal(need, value[0], query[0])
    for size in (query[2], value[2]):
        _heads(need, size, attrs["num_heads"])
    return ((query[0], query[1], value[2]),)


def _attention_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, weights, bias = shapes
    if len(x) != 3 or len(weights) != 2:
        raise IllTyped("Attention needs (batch, sequence, hidden) and a matrix")
    need_equal(need, x[2], weights[0])
    hidden = floor_div(weights[1], 3)
    need_equal(need, weights[1], hidden * 3)
    _same(need, bias, weights[1:], "the bias")
    _heads(need, hidden, attrs["num_heads"])
    return ((x[0], x[1], hidden),)


_STANDARD: Mapping[str, Operator] = {
    operator.name: operator
    for family in (conv, elementwise, linear, normalization, scalar)
    for operator in family.OPERATORS
}


def _made(shape: Sizes, at: Callable[..., Any]) -> Operand:
    """What one step computes, as an operand of the next."""
    return Operand(shape, "float", cache(at))


def _activated(g: Algebra, name: str, value: Any, **attrs: Any) -> Any:
    """A standard operator that works on one element."""
    return _STANDARD[name].meaning(g, [_made((), lambda: value)], attrs, (), ())


def _activation(g: Algebra, attrs: Mapping[str, Any], value: Any) -> Any:
    alpha, beta = attrs["activation_alpha"], attrs["activation_beta"]
    own = {
        "LeakyRelu": {"alpha": alpha},
        "HardSigmoid": {"alpha": alpha, "beta": beta},
        "Clip": {"bound_low": alpha, "bound_high": beta},
    }
    return _activated(g, attrs["activation"], value, **own.get(attrs["activation"], {}))


def _fused_matmul(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """alpha * MatMul(A', B'), with A' = A or A with its last two axes exchanged, and B' likewise."""

    def turned(x: Operand) -> Operand:
        return _made((*x.shape[:-2], x.shape[-1], x.shape[-2]), lambda *j: x.at(*j[:-2], j[-1], j[-2]))

    a, b = (turned(x) if attrs[name] else x for x, name in zip(xs, ("transA", "transB"), strict=True))
    return g.multiply(number(g, attrs["alpha"]), _STANDARD["MatMul"].meaning(g, [a, b], {}, shape, i))


def _fused_conv(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """activation(Conv(X, W, B) + Z)."""
    total = _STANDARD["Conv"].meaning(g, xs[:3], attrs, shape, i)
    if len(xs) > 3 and xs[3] is not None:
        total = g.add(total, xs[3].at(*i))
    return _activation(g, attrs, total)


def _fused_gemm(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """activation(Gemm(A, B, C))."""
    return _activation(g, attrs, _STANDARD["Gemm"].meaning(g, xs, attrs, shape, i))


def _with_bias(g: Algebra, xs: list[Any], i: Sizes) -> Any:
    x, *bias = xs
    return g.add(x.at(*i), broadcast(bias[0], i)) if bias and bias[0] is not None else x.at(*i)


def _bias_gelu(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Gelu(A + B)."""
    return _activated(g, "Gelu", _with_bias(g, xs, i), approximate="none")


def _fast_gelu(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Gelu[approximate="tanh"](X + bias). The page rounds sqrt(2 / pi) and its product with 0.044715 to six digits."""
    return _activated(g, "Gelu", _with_bias(g, xs, i), approximate="tanh")


def _quick_gelu(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x * sigmoid(alpha * x)."""
    x = xs[0].at(*i)
    return g.multiply(x, _activated(g, "Sigmoid", g.multiply(number(g, attrs["alpha"]), x)))


def _sum(g: Algebra, xs: list[Any]) -> Operand:
    """The sum of those operands that are there, the first of which has the shape of the result."""
    there = [x for x in xs if x is not None]
    return _made(there[0].shape, lambda *j: g.add(*(broadcast(x, j) for x in there)))


def _skip_layer_normalization(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """LayerNormalization[axis=-1](input + skip + bias, gamma, beta)."""
    x, skip, gamma, beta, bias = (*xs, None, None)[:5]
    own = {"axis": -1, "epsilon": attrs["epsilon"]}
    return _STANDARD["LayerNormalization"].meaning(g, [_sum(g, [x, skip, bias]), gamma, beta], own, shape, i)


def _skip_simplified(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """RMSNormalization[axis=-1](input + skip + bias, gamma)."""
    x, skip, gamma, bias = (*xs, None)[:4]
    own = {"axis": -1, "epsilon": attrs["epsilon"]}
    return _STANDARD["RMSNormalization"].meaning(g, [_sum(g, [x, skip, bias]), gamma], own, shape, i)


def _attended(g: Algebra, query: Operand, key: Operand, value: Operand, attrs: Mapping[str, Any], i: Sizes) -> Any:
    """sum_l p[b, h, s, l] * value[b, l, c], with h = c // (value's hidden size / num_heads) the head of channel c and
    p = Softmax over l of scale * sum_d query[b, s, h * H + d] * key[b, l, h * H + d].

    H is the size of a head; a scale of 0 is 1 / sqrt(H).
    """
    batch, place, channel = i
    heads = attrs["num_heads"]
    size, own = floor_div(query.shape[2], heads), floor_div(value.shape[2], heads)
    default = g.apply("reciprocal", g.apply("sqrt", g.size(size)))
    scale = number(g, attrs["scale"])
    if isinstance(attrs["scale"], AttrVar):
        scale = g.choose("==", scale, default, scale)
    elif attrs["scale"] == 0:
        scale = default

    def score(b: Size, h: Size, s: Size, row: Size) -> Any:
        def product(d: Size) -> Any:
            return g.multiply(query.at(b, s, h * size + d), key.at(b, row, h * size + d))

        return g.multiply(scale, g.summation(size, product))

    scores = _made((query.shape[0], heads, query.shape[1], key.shape[1]), score)

    def weighted(row: Size) -> Any:
        at = (batch, floor_div(channel, own), place, row)
        part = _STANDARD["Softmax"].meaning(g, [scores], {"axis": -1}, scores.shape, at)
        return g.multiply(part, value.at(batch, row, channel))

    return g.summation(key.shape[1], weighted)


def _multi_head_attention(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """Softmax(scale * query * key^T) * value, head by head."""
    query, key, value = xs
    return _attended(g, query, key, value, attrs, i)


def _attention(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """MultiHeadAttention of the three thirds (query, key, value) of input * weights + bias."""
    x, weights, bias = xs
    hidden = floor_div(weights.shape[1], 3)

    def third(k: int) -> Operand:
        def at(b: Size, s: Size, c: Size) -> Any:
            column = k * hidden + c
            product = g.summation(x.shape[2], lambda d: g.multiply(x.at(b, s, d), weights.at(d, column)))
            return g.add(product, bias.at(column))

        return _made((*x.shape[:2], hidden), at)

    return _attended(g, third(0), third(1), third(2), attrs, i)


_ACTIVATION = "activation activation_alpha=0.0 activation_beta=0.0"
_ort = partial(op, dtype=floats, domain="com.microsoft")

OPERATORS = (
    _ort("FusedMatMul", 2, 2, "alpha=1.0 transA=0 transB=0", shape=_fused_matmul_type, meaning=_fused_matmul),
    _ort(
        "FusedConv", 2, 4, f"{_ACTIVATION} dilations group=1 pads strides", shape=_fused_conv_type, meaning=_fused_conv
    ),
    _ort(
        "FusedGemm", 2, 3, f"{_ACTIVATION} alpha=1.0 beta=1.0 transA=0 transB=0",
        shape=_fused_gemm_type, meaning=_fused_gemm,
    ),
    _ort("BiasGelu", 2, 2, shape=_biased, elementwise=True, meaning=_bias_gelu),
    _ort("FastGelu", 1, 2, shape=_biased, elementwise=True, meaning=_fast_gelu),
    _ort("QuickGelu", 1, 1, "alpha=1.702", shape=_biased, elementwise=True, meaning=_quick_gelu),
    _ort("SkipLayerNormalization", 3, 5, "epsilon=1e-12", shape=_skip, meaning=_skip_layer_normalization),
    _ort("SkipSimplifiedLayerNormalization", 3, 4, "epsilon=1e-12", shape=_skip, meaning=_skip_simplified),
    op(
        "SimplifiedLayerNormalization", 2, 2, "axis=-1 epsilon=1e-05",
        shape=_simplified, dtype=floats, meaning=_STANDARD["RMSNormalization"].meaning,
    ),
    _ort(
        "MultiHeadAttention", 3, 3, "num_heads scale=0.0",
        shape=_multi_head_attention_type, meaning=_multi_head_attention,
    ),
    _ort("Attention", 3, 3, "num_heads scale=0.0", shape=_attention_type, meaning=_attention),
)  # fmt: skip
