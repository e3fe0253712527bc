"""The grammar of reductions, and of operators that may come before or after them. Data only."""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import Family, Use, axes, binary, concat, inputs, transpose, unary

__all__ = ["REDUCTIONS"]


def _reduce(names: str, *over: tuple[int, ...], keepdims: tuple[int, ...] = (1,), **kinds: Any) -> tuple[Use, ...]:
    """Return reductions by each of the names over each set of axes."""
    return tuple(
        Use(f"Reduce{name}", {"axes": a, "keepdims": k}, (1,), **kinds)
        for name in names.split()
        for a in over
        for k in keepdims
    )


def _not(*names: str) -> str:
    return "*!" + ",".join(name for group in names for name in group.split())


_ADDITIVE, _EXTREME = "ReduceSum ReduceMean", "ReduceMax ReduceMin"
_ALL = f"{_ADDITIVE} {_EXTREME}"
_KINDS = ("Sum", "Mean", "Max")


def _nested(*over: tuple[int, ...], keepdims: tuple[int, ...] = (0,)) -> tuple[Use, ...]:
    """Return reductions of three kinds, each over results of itself only."""
    return tuple(
        use
        for kind in _KINDS
        for use in _reduce(
            kind, *over, keepdims=keepdims, slots=(_not(*(f"Reduce{other}" for other in _KINDS if other != kind)),)
        )
    )


REDUCTIONS: tuple[Family, ...] = (
    # Scalars and constants along the axis, before or after a reduction.
    Family(
        "reductions",
        (*inputs("x", (3, 5)), *inputs("c", (3, 1)), *inputs("s", ())),
        (
            *axes("Squeeze", (-1,)),
            *_reduce("Sum Mean Max", (-1,), keepdims=(0, 1), slots=(_not(_ALL),)),
            *binary("Add Mul Div Max", slots=("*!c,s", "*!c,x")),
            *unary("Neg Relu", slots=("*!c,s",)),
        ),
        runtime=2,
        variation="axes",
    ),
    # Reductions over several axes in a row: one.
    Family(
        "reductions",
        inputs("x", (2, 3, 4)),
        (
            *_nested((-1,), (-2,), (-2, -1)),
            *transpose((0, 2, 1), slots=(_not("Transpose", _ALL),)),
        ),
        runtime=2,
        variation="axes",
    ),
    # Reductions and Transposes between channels first and channels last.
    Family(
        "reductions",
        inputs("x", (2, 3, 4, 5)),
        (
            *_reduce("Mean Max", (-2, -1), (-3, -2), (-3, -1), keepdims=(0,), slots=(_not(_ALL),)),
            *transpose((0, 2, 3, 1), (0, 3, 1, 2), slots=(_not("Transpose", _ALL),)),
        ),
        runtime=2,
        elements=120,
        variation="axes",
    ),
    # Reductions of sums, maxima and concatenated values.
    Family(
        "reductions",
        inputs("x y", (3, 5)),
        (
            *_reduce("Sum Mean", (-1,), slots=(_not(_ALL, "Max Min"),)),
            *_reduce("Max", (-1,), slots=(_not(_ALL, "Add"),)),
            *binary("Add", slots=(_not(_EXTREME, "Max"),)),
            *binary("Max", slots=(_not(_ADDITIVE, "ReduceMin Add Sub Min"),)),
            *concat(-1, -2, slots=(_not("Add Sub Max Min Concat"),)),
        ),
        runtime=3,
        shapes=frozenset({(3, 5), (3, 10), (6, 5), (3, 1), (6, 1)}),
        variation="axes",
    ),
    # Reductions across the axis of a Concat, and Transpose.
    Family(
        "reductions",
        inputs("x y", (3, 5)),
        (
            *_reduce("Mean Max", (-1,), (-2,), slots=(_not(_ALL),)),
            *transpose((1, 0), slots=(_not("Transpose Concat"),)),
            *concat(-1, slots=(_not("Transpose Concat"),)),
        ),
        runtime=3,
        shapes=frozenset({(3, 5), (5, 3), (3, 10), (3, 1), (1, 3), (1, 5), (5, 1), (1, 10), (3, 2)}),
        variation="axes",
    ),
    # Norms and logarithmic sums, written out.
    Family(
        "reductions",
        inputs("a", (3, 5)),
        (
            *_reduce("Sum L1 L2 SumSquare LogSum LogSumExp", (-1,), slots=("a",)),
            *_reduce(
                "Sum LogSum",
                (-1,),
                slots=(
                    _not(
                        _ALL,
                        "a Log Sqrt Div LpNormalization ReduceL1 ReduceL2",
                        "ReduceSumSquare ReduceLogSum ReduceLogSumExp",
                    ),
                ),
            ),
            Use("LpNormalization", {"axis": -1, "p": 1}, (1,), ("a",)),
            Use("LpNormalization", {"axis": -1, "p": 2}, (1,), ("a",)),
            *unary("Abs Exp", slots=("a",)),
            *unary("Log Sqrt", slots=("*!a,Abs,Exp,Mul,ReduceL1",)),
            Use("Mul", slots=("a", "a")),
            Use("Div", slots=("a", "x")),
        ),
        runtime=3,
        variation="axes",
    ),
    # Sums of products with weights: the sum may be taken of the weights.
    Family(
        "reductions",
        (
            *inputs("x", (3, 5)),
            *inputs("u", (5, 4), "u", True),
            *inputs("v", (5,)),
        ),
        (
            *_reduce("Sum Mean", (-1,), (-2,), keepdims=(0,), slots=(_not(_ALL, "v"),)),
            *_reduce("Sum Mean", (-1,), keepdims=(0,), slots=("u",), run=False, fold=True),
            *binary("MatMul", slots=("x!v", "w")),
            *binary("MatMul", slots=("x!v", "v")),
            *binary("Add", slots=("x!v", "v")),
            *binary("Mul", slots=("x!v", "v")),
        ),
        runtime=3,
        folded=(1, 1, 1, 0),
        variation="axes",
    ),
)
