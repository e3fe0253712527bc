"""The grammar of reductions. Data only."""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, binary, concat, inputs, reduce_sum, transpose, unary

__all__ = ["REDUCE"]

REDUCE: tuple[Family, ...] = (
    Family(
        "reduce",
        (*inputs("x y", (2, 2)), *inputs("s", ())),
        (
            *reduce_sum((-1,), (-2,), slots=("*!ReduceSum",)),
            *binary("MatMul", slots=("*!MatMul",)),
            Use("Mul", slots=("*!Mul,MatMul", "s")),
            *unary("Neg", slots=("*!Neg,Mul,MatMul",)),
            *transpose((1, 0), slots=("*!Transpose,Neg,Mul,MatMul",)),
        ),
        runtime=2,
        lifts="matrix",
    ),
    Family(
        "reduce",
        inputs("x", (2, 2)),
        (*reduce_sum((-1,), (-2,), keepdims=(1,)), *reduce_sum((-2, -1), keepdims=(1,), slots=("x",))),
        runtime=2,
        lifts="matrix",
    ),
    Family(
        "reduce",
        inputs("x y", (2, 2)),
        (
            *reduce_sum((-1,), (-2,), keepdims=(1,), slots=("*!ReduceSum",)),
            *binary("Add Sub", slots=("*!Add,Sub",)),
            *concat(-1, slots=("*!Add,Sub,Concat",)),
        ),
        runtime=3,
        shapes=frozenset({(2, 2), (2, 4), (2, 1), (1, 2), (1, 4), (1, 1)}),
        lifts="matrix",
    ),
)
