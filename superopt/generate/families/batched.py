"""The grammar of products of equal sizes as one product of stacks. Data only."""

from __future__ import annotations

from superopt.generate.families.usual import GEMM
from superopt.generate.grammar import Family, Use, axes, binary, concat, inputs, reduce_sum, reshape, transpose

__all__ = ["BATCHED"]

_OPERANDS = (*inputs("x y", (2, 3)), *inputs("w u", (3, 5), "w", True), *inputs("b c", (5,), "b", True))
_STACKS = (  # products of stacks, plus stacks of biases
    *axes("Unsqueeze", (-3,), slots=("w0!b,c",), run=False, fold=True),
    *axes("Unsqueeze", (-3, -2), slots=("b|c",), run=False, fold=True),
    *concat(-3, slots=("w1!w,u,b,c",), run=False, fold=True),
    *binary("MatMul", slots=("x!x,y,Gemm,MatMul,Unsqueeze,Add,Transpose,Reshape", "w3!w,u,b,c,Unsqueeze")),
    Use("Add", slots=("x!x,y,Gemm,Unsqueeze,Concat,Add,Transpose,Reshape", "w3!w,u,b,c,Unsqueeze")),
)
_APART = (Use("Gemm", GEMM, (3,), ("x|y", "w0!b,c", "b|c")), Use("MatMul", slots=("x|y", "w0!b,c")))

BATCHED: tuple[Family, ...] = (
    # Products of equal sizes that are stacked: one product of stacks.
    Family(
        "linear",
        _OPERANDS,
        (
            *_APART,
            *axes("Unsqueeze", (-3,), slots=("x!Unsqueeze,Concat,Add",)),
            *concat(-3, slots=("x!x,y,Gemm,MatMul,Concat,Add",)),
            *_STACKS,
        ),
        runtime=5,
        folded=(3, 0, 0, 0, 3, 6),
    ),
    # Products of equal sizes whose results are concatenated: one product of stacks.
    Family(
        "linear",
        _OPERANDS,
        (
            *_APART,
            *concat(-1, slots=("x!x,y,Unsqueeze,Concat,Add,Transpose,Reshape",)),
            *axes("Unsqueeze", (-3,), slots=("x|y",)),
            *concat(-3, slots=("x!x,y,Gemm,MatMul,Concat,Add,Transpose,Reshape",)),
            *_STACKS,
            *transpose((1, 0, 2), slots=("x!x,y,Gemm,Unsqueeze,Concat,Transpose,Reshape",)),
            *reshape((0, -1), slots=("x!x,y,Gemm,MatMul,Unsqueeze,Concat,Add,Reshape",)),
        ),
        runtime=7,
        folded=(3, 0, 0, 0, 3, 6, 6, 6),
    ),
    # A weighted sum of rows as a product of a row vector and a matrix.
    Family(
        "linear",
        (*inputs("x", (2, 3, 5)), *inputs("v", (2, 3), "v")),
        (
            *axes("Unsqueeze", (-1,), (-2,), slots=("v",)),
            Use("Mul", slots=("x!v,Mul,MatMul,Unsqueeze", "x!x,v,Mul,MatMul")),
            *reduce_sum((-2,), keepdims=(0,), slots=("x!x,v,MatMul,Unsqueeze",)),
            Use("MatMul", slots=("x!x,v,Mul,MatMul", "x")),
            *axes("Squeeze", (-2,), slots=("x!x,v,Mul,Unsqueeze",)),
        ),
        runtime=3,
    ),
)
