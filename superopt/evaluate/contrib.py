"""Fused operators of ONNX Runtime's own domain, com.microsoft: compositions of the standard ones.

Each docstring says which; the source is the operator's page in ONNX Runtime's list of contributed operators. Inputs
that are absent are None in those that are OPTIONAL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from superopt.evaluate import normalization, scalar, standard
from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE", "OPTIONAL"]

_STANDARD: Mapping[str, Compute] = {**normalization.COMPUTE, **scalar.COMPUTE, **standard.COMPUTE}


def _one(op: str, inputs: Sequence[Array], **attrs: Any) -> Array:
    (result,) = _STANDARD[op](inputs, attrs)
    return result


def _there(inputs: Sequence[Any]) -> list[Array]:
    return [x for x in inputs if x is not None]


def _padded(inputs: Sequence[Any], count: int) -> list[Any]:
    return [*inputs, *[None] * (count - len(inputs))]


def _activation(x: Array, attrs: Attrs) -> Array:
    alpha, beta = attrs["activation_alpha"], attrs["activation_beta"]
    own: Mapping[str, Attrs] = {
        "LeakyRelu": {"alpha": alpha},
        "HardSigmoid": {"alpha": alpha, "beta": beta},
        "Clip": {"bound_low": alpha, "bound_high": beta},
    }
    return _one(attrs["activation"], [x], **own.get(attrs["activation"], {}))


def _fused_matmul(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """alpha * MatMul(A', B'), with A' = A or A with its last two axes exchanged, and B' likewise."""
    turned = (attrs["transA"], attrs["transB"])
    a, b = (x.swapaxes(-1, -2) if turn else x for x, turn in zip(inputs, turned, strict=True))
    return [attrs["alpha"] * (a @ b)]


def _fused_conv(inputs: Sequence[Any], attrs: Attrs) -> list[Array]:
    """activation(Conv(X, W, B) + Z)."""
    x, w, b, z = _padded(inputs, 4)
    total = _one("Conv", _there([x, w, b]), **attrs)
    return [_activation(total if z is None else total + z, attrs)]


def _fused_gemm(inputs: Sequence[Any], attrs: Attrs) -> list[Array]:
    """activation(Gemm(A, B, C))."""
    return [_activation(_one("Gemm", _there(inputs), **attrs), attrs)]


def _bias_gelu(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """Gelu(A + B)."""
    return [_one("Gelu", [_one("Sum", inputs)], approximate="none")]


def _fast_gelu(inputs: Sequence[Any], attrs: Attrs) -> list[Array]:
    """Gelu[approximate="tanh"](X + bias). The page rounds sqrt(2 / pi) and its product with 0.044715 to six digits."""
    return [_one("Gelu", [_one("Sum", _there(inputs))], approximate="tanh")]


def _quick_gelu(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """x * sigmoid(alpha * x)."""
    (x,) = inputs
    return [x * _one("Sigmoid", [attrs["alpha"] * x])]


def _skip_layer_normalization(inputs: Sequence[Any], attrs: Attrs) -> list[Array]:
    """LayerNormalization[axis=-1](input + skip + bias, gamma, beta)."""
    x, skip, gamma, beta, bias = _padded(inputs, 5)
    total = _one("Sum", _there([x, skip, bias]))
    return [_one("LayerNormalization", _there([total, gamma, beta]), axis=-1, epsilon=attrs["epsilon"])]


def _skip_simplified(inputs: Sequence[Any], attrs: Attrs) -> list[Array]:
    """RMSNormalization[axis=-1](input + skip + bias, gamma)."""
    x, skip, gamma, bias = _padded(inputs, 4)
    total = _one("Sum", _there([x, skip, bias]))
    return [_one("RMSNormalization", [total, gamma], axis=-1, epsilon=attrs["epsilon"])]


def _heads(x: Array, heads: int) -> Array:
    """(batch, sequence, heads * size) to (batch, heads, sequence, size)."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)


def _multi_head_attention(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """Softmax(scale * query * key^T) * value, head by head; a scale of 0 is 1 / sqrt(size of a head of the query)."""
    query, key, value = (_heads(x, attrs["num_heads"]) for x in inputs)
    scale = attrs["scale"] or 1 / math.sqrt(query.shape[-1])
    result = _one("Softmax", [scale * (query @ key.swapaxes(-1, -2))], axis=-1) @ value
    return [result.swapaxes(1, 2).reshape(*inputs[0].shape[:2], inputs[2].shape[2])]


def _attention(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """MultiHeadAttention of the three thirds (query, key, value) of input * weights + bias."""
    x, weights, bias = inputs
    hidden = weights.shape[1] // 3
    return _multi_head_attention(_STANDARD["Split"]([x @ weights + bias], {"axis": -1, "split": [hidden] * 3}), attrs)


COMPUTE: Mapping[str, Compute] = {
    "FusedMatMul": _fused_matmul,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "BiasGelu": _bias_gelu,
    "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": _skip_simplified,
    "SimplifiedLayerNormalization": normalization.COMPUTE["RMSNormalization"],
    "MultiHeadAttention": _multi_head_attention,
    "Attention": _attention,
}
OPTIONAL = frozenset(
    {"FastGelu", "FusedConv", "FusedGemm", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"}
)
