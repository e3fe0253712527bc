"""Fused operators of ONNX Runtime's own domain, com.microsoft. onnx.reference knows none of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.support.semantic_cases.case import Array, Case, Maker, shape_of, values
from tests.support.semantic_cases.standard import CASES as STANDARD

__all__ = ["CASES"]


def _case(attrs: dict[str, Any], arrays: Sequence[Array | None]) -> Case:
    return Case(attrs, arrays, ("onnxruntime",))


def _activation(rng: random.Random, *names: str) -> dict[str, Any]:
    name = rng.choice(names)
    alpha, beta = {
        "LeakyRelu": (rng.choice([0.01, 0.5, -0.5, 2.0]), 0.0),
        "HardSigmoid": (rng.choice([0.2, -0.3]), rng.choice([0.5, 0.25])),
        "Clip": (rng.choice([0.0, -1.0]), rng.choice([0.5, 6.0])),
    }.get(name, (0.0, 0.0))
    return {"activation": name, "activation_alpha": alpha, "activation_beta": beta}


_ACTIVATIONS = ("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid")


def _fused_matmul(rng: random.Random) -> Case:
    a, b = (array for array in STANDARD["MatMul"](rng).arrays if array is not None)
    turned = [int(a.ndim > 1 and b.ndim > 1 and rng.random() < 0.5) for _ in (a, b)]
    arrays = [x.swapaxes(-1, -2).copy() if t else x for x, t in zip((a, b), turned, strict=True)]
    return _case({"alpha": rng.choice([1.0, 0.5, -2.0]), "transA": turned[0], "transB": turned[1]}, arrays)


def _fused_conv(rng: random.Random) -> Case:
    plain = STANDARD["Conv"](rng)
    x, w, *bias = (array for array in plain.arrays if array is not None)
    arrays: list[Array | None] = [x, w, *bias]
    if rng.random() < 0.5:
        size = [x.shape[0], w.shape[0]]
        spatial = x.ndim - 2
        for d in range(spatial):
            room = x.shape[2 + d] + plain.attrs["pads"][d] + plain.attrs["pads"][spatial + d]
            reach = (w.shape[2 + d] - 1) * plain.attrs["dilations"][d] + 1
            size.append((room - reach) // plain.attrs["strides"][d] + 1)
        arrays = [x, w, bias[0] if bias else None, values(rng, size)]
    return _case({**plain.attrs, **_activation(rng, *_ACTIVATIONS, "Clip")}, arrays)


def _fused_gemm(rng: random.Random) -> Case:
    plain = STANDARD["Gemm"](rng)
    return _case({**plain.attrs, **_activation(rng, *_ACTIVATIONS)}, plain.arrays)


def _bias_gelu(rng: random.Random) -> Case:
    shape = shape_of(rng, 1)
    return _case({}, [values(rng, shape), values(rng, shape[-1:])])


def _fast_gelu(rng: random.Random) -> Case:
    case = _bias_gelu(rng)
    return _case({}, case.arrays[: rng.randint(1, 2)])


def _quick_gelu(rng: random.Random) -> Case:
    return _case({"alpha": rng.choice([1.702, 1.0, -0.5])}, [values(rng, shape_of(rng, 1))])


def _skip_layer_normalization(rng: random.Random) -> Case:
    shape = tuple(rng.randint(2, 5) for _ in range(rng.randint(2, 3)))
    skips = [shape, shape, shape[-2:], (1, *shape[-2:])] if len(shape) == 3 else [shape]
    arrays: list[Array | None] = [values(rng, shape), values(rng, rng.choice(skips)), values(rng, shape[-1:])]
    arrays += [values(rng, shape[-1:]) if rng.random() < 0.5 else None for _ in range(2)]
    while arrays[-1] is None:
        arrays.pop()
    return _case({"epsilon": rng.choice([1e-5, 0.5])}, arrays)


def _skip_simplified(rng: random.Random) -> Case:
    shape = tuple(rng.randint(2, 5) for _ in range(rng.randint(2, 3)))
    arrays = [values(rng, shape), values(rng, shape), *(values(rng, shape[-1:]) for _ in range(rng.randint(1, 2)))]
    return _case({"epsilon": rng.choice([1e-5, 0.5])}, arrays)


def _simplified(rng: random.Random) -> Case:
    shape = shape_of(rng, 1)
    axis = rng.randrange(len(shape))
    attrs = {"axis": axis - len(shape), "epsilon": rng.choice([1e-5, 0.5])}
    return _case(attrs, [values(rng, shape), values(rng, shape[axis:])])


def _multi_head_attention(rng: random.Random) -> Case:
    batch, sequence, rows, heads, size, own = (rng.randint(1, 3) for _ in range(6))
    shapes = [(batch, sequence, heads * size), (batch, rows, heads * size), (batch, rows, heads * own)]
    arrays: list[Array | None] = [values(rng, shape) for shape in shapes]
    if rng.random() < 0.6:
        arrays.append(values(rng, (heads * (2 * size + own),)) if rng.random() < 0.6 else None)
        if arrays[-1] is None or rng.random() < 0.5:
            scores = (rng.choice([1, batch]), rng.choice([1, heads]), sequence, rows)
            arrays.append(values(rng, scores))
    return _case({"num_heads": heads, "scale": rng.choice([-0.25, 0.5])}, arrays)


def _rotary_embedding(rng: random.Random) -> Case:
    batch, heads, sequence, half = (rng.randint(1, 3) for _ in range(4))
    flat = rng.random() < 0.5
    shape = (batch, sequence, heads * half * 2) if flat else (batch, heads, sequence, half * 2)
    attrs = {"interleaved": rng.randint(0, 1), "num_heads": heads if flat else 0}
    arrays = [values(rng, own) for own in (shape, *[(batch, sequence, half)] * 2)]
    return Case(attrs, arrays, opset=23)


def _attention(rng: random.Random) -> Case:
    batch, sequence, hidden, heads, size = (rng.randint(1, 3) for _ in range(5))
    shapes = [(batch, sequence, hidden), (hidden, 3 * heads * size), (3 * heads * size,)]
    attrs = {"num_heads": heads, "scale": rng.choice([-0.25, 0.5])}
    if rng.random() < 0.5:
        shapes.append((rng.choice([1, batch]), rng.choice([1, heads]), sequence, sequence))
    return _case(attrs, [values(rng, shape) for shape in shapes])


CASES: dict[str, Maker] = {
    "FusedMatMul": _fused_matmul,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "BiasGelu": _bias_gelu,
    "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": _skip_simplified,
    "SimplifiedLayerNormalization": _simplified,
    "MultiHeadAttention": _multi_head_attention,
    "Attention": _attention,
    "RotaryEmbedding": _rotary_embedding,
}
