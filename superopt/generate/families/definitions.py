"""The grammar of operators that are defined by other operators: their own equations, as rules. Data only.

Each term stands for the equation that `superopt.ops` defines its operator by. The equation is generalised and proven
like any other, so attributes and sizes become variables.
"""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import Family, Variable, inputs

__all__ = ["DEFINITIONS"]

_REDUCED = "ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum ReduceLogSumExp"


def _family(variables: tuple[Variable, ...], *terms: str, variation: str = "pointwise", **kinds: Any) -> Family:
    return Family("definitions", variables, (), 1, variation=variation, reals=True, definitions=terms, **kinds)


_ROWS = (*inputs("x", (2, 4, 6)), *inputs("g h", (6,), "g"))
_IMAGE = (*inputs("x", (2, 4, 3, 5)), *inputs("s b m v", (4,), "s"))

DEFINITIONS: tuple[Family, ...] = (
    _family(
        inputs("x", (4, 6)),
        *(f"{name}(x)" for name in ("Softplus", "Mish", "Softsign", "Ceil")),
        'Gelu[approximate="none"](x)',
        "LeakyRelu[alpha=0.375](x)",
        "HardSigmoid[alpha=0.375, beta=0.75](x)",
        "Selu[alpha=1.375, gamma=1.25](x)",
        "Celu[alpha=1.0](x)",
        "QuickGelu[alpha=1.75](x)",
    ),
    _family(
        inputs("x", (2, 4, 6)),
        *(
            f"{name}[axes=[{axes}], keepdims={k}](x)"
            for name in _REDUCED.split()
            for axes in ("-1", "-2, -1")
            for k in (0, 1)
        ),
        *(f"{name}[axis=-1](x)" for name in ("Softmax", "LogSoftmax")),
        variation="axes",
    ),
    _family(
        inputs("x", (2, 4, 3, 5)),
        *(f"{name}(x)" for name in ("GlobalMaxPool", "GlobalAveragePool")),
        variation="",
    ),
    _family(
        _ROWS,
        "LayerNormalization[axis=-1, epsilon=0.125](x, g, h)",
        "LayerNormalization[axis=-1, epsilon=0.125](x, g)",
        "RMSNormalization[axis=-1, epsilon=0.125](x, g)",
        variation="rows",
    ),
    _family(
        _IMAGE,
        "BatchNormalization[epsilon=0.125](x, s, b, m, v)",
        "InstanceNormalization[epsilon=0.125](x, s, b)",
        variation="",
    ),
    _family(
        (*inputs("x", (4, 6)), *inputs("w", (6, 5)), *inputs("b", (5,))),
        "Gemm[alpha=0.75, beta=1.25, transA=0, transB=0](x, w, b)",
        "Gemm[alpha=0.75, beta=1.0, transA=0, transB=0](x, w)",
        "Gemm[alpha=1.0, beta=1.0, transA=0, transB=0](x, w, b)",
        variation="",
    ),
    _family(
        (*inputs("a", (4, 6)), *inputs("b", (6, 5), "b")),
        "FusedMatMul[alpha=0.375, transA=0, transB=0](a, b)",
        variation="matrix",
    ),
    _family(
        (*inputs("q k v", (2, 3, 8)), *inputs("m", (2, 2, 3, 3), "m")),
        "MultiHeadAttention[num_heads=2, scale=0.375](q, k, v, _, m)",
        variation="attention",
    ),
    _family(inputs("q k v", (2, 3, 8)), "MultiHeadAttention[num_heads=2, scale=0.375](q, k, v)", variation=""),
    _family(
        (*inputs("x", (2, 3, 8)), *inputs("w", (8, 24)), *inputs("b", (24,)), *inputs("m", (2, 2, 3, 3), "m")),
        "Attention[num_heads=2, scale=0.375](x, w, b, m)",
        "Attention[num_heads=2, scale=0.375](x, w, b)",
        variation="attention",
    ),
    _family(
        (*inputs("x y", (2, 4, 6), "x"), *inputs("g h b", (6,), "g")),
        "SkipLayerNormalization[epsilon=0.125](x, y, g, h, b)",
        "SkipSimplifiedLayerNormalization[epsilon=0.125](x, y, g, b)",
        variation="",
    ),
    # The same with the sum, which the next layer reads.
    _family(
        (*inputs("x y", (4, 6), "x"), *inputs("g h b", (6,), "g")),
        *(
            f"({skip}, {skip}.1)"
            for skip in (
                "SkipLayerNormalization[epsilon=0.125](x, y, g, h, b)",
                "SkipLayerNormalization[epsilon=0.125](x, y, g, h)",
                "SkipLayerNormalization[epsilon=0.125](x, y, g)",
                "SkipSimplifiedLayerNormalization[epsilon=0.125](x, y, g, b)",
                "SkipSimplifiedLayerNormalization[epsilon=0.125](x, y, g)",
            )
        ),
        variation="rows",
    ),
)
