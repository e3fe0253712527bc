"""Fused operators of ONNX Runtime's own domain, com.microsoft: compositions of the definitions of standard ones.

Each docstring says which; the source is the operator's page in ONNX Runtime's list of contributed operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from superopt.ir.dim import Size, Sizes, floor_div
from superopt.ir.term import AttrVar
from verify.algebra import Algebra
from verify.semantics import conv, elementwise, linear, normalization, scalar
from verify.semantics.common import Definition, Operand, broadcast, number

__all__ = ["DEFINITIONS"]

_STANDARD: Mapping[str, Definition] = {
    name: definition
    for family in (conv, elementwise, linear, normalization, scalar)
    for name, definition in family.DEFINITIONS.items()
}


def _made(shape: Sizes, at: Callable[..., Any]) -> Operand:
    """What one step computes, as an operand of the next."""
    return Operand(shape, "float", cache(at))


def _activated(g: Algebra, name: str, value: Any, **attrs: Any) -> Any:
    """A standard operator that works on one element."""
    return _STANDARD[name](g, [_made((), lambda: value)], attrs, (), ())


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
    return g.multiply(number(g, attrs["alpha"]), _STANDARD["MatMul"](g, [a, b], {}, shape, i))


def _fused_conv(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """activation(Conv(X, W, B) + Z)."""
    total = _STANDARD["Conv"](g, xs[:3], attrs, shape, i)
    if len(xs) > 3 and xs[3] is not None:
        total = g.add(total, xs[3].at(*i))
    return _activation(g, attrs, total)


def _fused_gemm(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """activation(Gemm(A, B, C))."""
    return _activation(g, attrs, _STANDARD["Gemm"](g, xs, attrs, shape, i))


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
    return _STANDARD["LayerNormalization"](g, [_sum(g, [x, skip, bias]), gamma, beta], own, shape, i)


def _skip_simplified(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """RMSNormalization[axis=-1](input + skip + bias, gamma)."""
    x, skip, gamma, bias = (*xs, None)[:4]
    own = {"axis": -1, "epsilon": attrs["epsilon"]}
    return _STANDARD["RMSNormalization"](g, [_sum(g, [x, skip, bias]), gamma], own, shape, i)


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
        part = _STANDARD["Softmax"](g, [scores], {"axis": -1}, scores.shape, at)
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


DEFINITIONS: Mapping[str, Definition] = {
    "FusedMatMul": _fused_matmul,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "BiasGelu": _bias_gelu,
    "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": _skip_simplified,
    "SimplifiedLayerNormalization": _STANDARD["RMSNormalization"],
    "MultiHeadAttention": _multi_head_attention,
    "Attention": _attention,
}
