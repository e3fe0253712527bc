"""The grammar of matrix products. Data only."""

from __future__ import annotations

from superopt.generate.families.usual import GEMM
from superopt.generate.grammar import Family, Use, binary, concat, inputs, slices, splits, transpose, unary

__all__ = ["MATRIX"]

MATRIX: tuple[Family, ...] = (
    # Products, sums, scales, Transpose and Concat of square matrices.
    Family(
        "matrix",
        (*inputs("a b c d", (2, 2)), *inputs("s", ())),
        (*binary("MatMul Add"), Use("Mul", slots=("*", "s")), *transpose((1, 0)), *concat(-1, -2)),
        runtime=3,
        elements=8,
        variation="matrix",
    ),
    # Products and Concat, with rules of two outputs: products that share an operand become one.
    Family(
        "matrix",
        inputs("a b c", (2, 2)),
        (*binary("MatMul"), *concat(-1, -2)),
        runtime=3,
        elements=8,
        variation="matrix",
        split_axes=(-1, -2),
    ),
    # Gemm of transposed operands, and a transposed Gemm.
    Family(
        "matrix",
        (*inputs("x w", (3, 3)), *inputs("b", (3,), "b", True)),
        (
            *transpose((1, 0), slots=("x|w|Gemm",)),
            *(
                Use("Gemm", {**GEMM, "transA": a, "transB": b}, (2, 3), ("x|w|Transpose", "x|w|Transpose", "b"))
                for a in (0, 1)
                for b in (0, 1)
            ),
        ),
        runtime=3,
        elements=9,
    ),
    # Products of parts of a Split, and Neg.
    Family(
        "matrix",
        (*inputs("a", (2, 2)), *inputs("t", (2, 4)), *inputs("u", (4, 2))),
        (*binary("MatMul"), *unary("Neg", slots=("*!Neg",)), *splits(-1, -2)),
        runtime=2,
        elements=8,
        variation="matrix",
    ),
    # Products of parts by Slice.
    Family(
        "matrix",
        (*inputs("a", (2, 2)), *inputs("t", (2, 4)), *inputs("u", (4, 2))),
        (*binary("MatMul"), *slices(-1, -2)),
        runtime=2,
        elements=8,
        variation="matrix",
    ),
    # Products and differences: distributivity.
    Family(
        "matrix", inputs("a b c", (2, 2)), (Use("MatMul"), Use("Sub", slots=("*!Sub",))), runtime=3, variation="matrix"
    ),
    # The identity matrix as an operand.
    Family(
        "matrix",
        inputs("a", (2, 2)),
        (*binary("MatMul"), *transpose((1, 0), slots=("Eye",), run=False, fold=True)),
        runtime=1,
        folded=(1, 1),
        constants=(("Eye", {"n": 2}),),
        variation="matrix",
    ),
    # Products, sums, scales and Transpose of five operators; on request, as it takes long.
    Family(
        "matrix",
        (*inputs("a b c d", (2, 2)), *inputs("s", ())),
        (*binary("MatMul Add", slots=("*!s",)), Use("Mul", slots=("*!s", "s")), *transpose((1, 0))),
        runtime=5,
        variation="matrix",
        wave=2,
    ),
)
