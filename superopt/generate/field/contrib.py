"""Fused operators of ONNX Runtime's own domain, com.microsoft: compositions of the other kernels.

Kernels get the operands that are there. FusedConv's third of three is a bias where it is a vector, else Z; a fourth
operand of SkipLayerNormalization is beta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.generate.field import conv, elementwise, linear, normalization, scalar
from superopt.generate.field.arithmetic import Array, Attrs, Kernel, P, Shape, inverse, lift, residue, scaled
from superopt.generate.field.functions import sqrt
from superopt.generate.field.linear import product
from superopt.generate.field.normalization import softmax
from superopt.generate.field.scalar import quick_gelu

__all__ = ["KERNELS"]

_P = np.uint64(P)
_STANDARD: Mapping[str, Kernel] = {
    name: kernel
    for family in (conv, elementwise, linear, normalization, scalar)
    for name, kernel in family.KERNELS.items()
}


def _activation(x: Array, attrs: Attrs, out: Shape) -> Array:
    alpha, beta = attrs["activation_alpha"], attrs["activation_beta"]
    own = {
        "LeakyRelu": {"alpha": alpha},
        "HardSigmoid": {"alpha": alpha, "beta": beta},
        "Clip": {"bound_low": alpha, "bound_high": beta},
    }
    return _STANDARD[attrs["activation"]]([x], [out], own.get(attrs["activation"], {}), out)


def _fused_matmul(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """alpha * MatMul(A', B')."""
    operands, sizes = [], []
    for x, shape, turn in zip(xs, shapes, (attrs["transA"], attrs["transB"]), strict=True):
        operands.append(x.swapaxes(-1, -2) if turn else x)
        sizes.append((*shape[:-2], shape[-1], shape[-2]) if turn else shape)
    return scaled(_STANDARD["MatMul"](operands, sizes, {}, out), residue(attrs["alpha"]))


def _fused_conv(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """activation(Conv(X, W, B) + Z)."""
    biased = len(xs) > 2 and len(shapes[2]) == 1
    total = _STANDARD["Conv"](xs[: 2 + biased], shapes[: 2 + biased], attrs, out)
    if len(xs) > 2 + biased:
        total = (total + xs[2 + biased]) % _P
    return _activation(total, attrs, out)


def _fused_gemm(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """activation(Gemm(A, B, C))."""
    return _activation(_STANDARD["Gemm"](xs, shapes, attrs, out), attrs, out)


def _gelu_of_sum(approximate: str) -> Kernel:
    """Gelu(x + bias)."""

    def kernel(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
        total = _STANDARD["Sum"](xs, shapes, {}, out)
        return _STANDARD["Gelu"]([total], [out], {"approximate": approximate}, out)

    return kernel


def _skip_layer(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """LayerNormalization[axis=-1](input + skip + bias, gamma, beta)."""
    added = [0, 1, *range(4, len(xs))]
    x = _STANDARD["Sum"]([xs[k] for k in added], [shapes[k] for k in added], {}, out)
    own = {"axis": -1, "epsilon": attrs["epsilon"]}
    return _STANDARD["LayerNormalization"]([x, *xs[2:4]], [out, *shapes[2:4]], own, out)


def _skip_rms(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """RMSNormalization[axis=-1](input + skip + bias, gamma)."""
    added = [0, 1, *range(3, len(xs))]
    x = _STANDARD["Sum"]([xs[k] for k in added], [shapes[k] for k in added], {}, out)
    own = {"axis": -1, "epsilon": attrs["epsilon"]}
    return _STANDARD["RMSNormalization"]([x, xs[2]], [out, shapes[2]], own, out)


def _heads(x: Array, shape: Shape, heads: int) -> Array:
    """(batch, sequence, heads * size) to (batch, heads, sequence, size)."""
    batch, places, hidden = shape
    stacked = x.shape[: x.ndim - 3]
    return x.reshape((*stacked, batch, places, heads, hidden // heads)).swapaxes(-2, -3)


def _attended(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """Softmax(scale * query * key^T) * value, head by head; a scale of 0 is 1 / sqrt(size of a head)."""
    heads = attrs["num_heads"]
    query, key, value = (_heads(x, shape, heads) for x, shape in zip(xs, shapes, strict=True))
    scale = residue(attrs["scale"])
    if not scale:
        scale = int(inverse(sqrt(np.full(1, shapes[0][2] // heads, dtype=np.uint64)))[0])
    scores = scaled(product(query, key.swapaxes(-1, -2)), scale)
    found = product(softmax(scores), value).swapaxes(-2, -3)
    return found.reshape(found.shape[:-4] + out)


def _attention(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """MultiHeadAttention of the three thirds (query, key, value) of input * weights + bias."""
    x, weights, bias = xs
    hidden = out[2]
    joined = (product(x, lift(weights, shapes[1], 3)) + lift(bias, shapes[2], 3)) % _P
    thirds = [joined[..., k * hidden : (k + 1) * hidden] for k in range(3)]
    return _attended(thirds, [out] * 3, attrs, out)


KERNELS: Mapping[str, Kernel] = {
    "FusedMatMul": _fused_matmul,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "BiasGelu": _gelu_of_sum("none"),
    "FastGelu": _gelu_of_sum("tanh"),
    "QuickGelu": lambda xs, shapes, attrs, out: quick_gelu(xs[0], attrs["alpha"]),
    "SkipLayerNormalization": _skip_layer,
    "SkipSimplifiedLayerNormalization": _skip_rms,
    "SimplifiedLayerNormalization": _STANDARD["RMSNormalization"],
    "MultiHeadAttention": _attended,
    "Attention": _attention,
}
