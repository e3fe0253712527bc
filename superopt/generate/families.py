"""The grammar: which operators, attributes, inputs and constants are enumerated. Data only; the rules are found.

Inputs of a family are small tensors of fixed sizes. Sizes that must agree for many operators to compose agree here
(square matrices); which of these equalities a rule really needs is found out later, by generalisation and proof.
"""

from __future__ import annotations

from superopt.generate.families_conv import CONV_FAMILIES
from superopt.generate.grammar import (
    FOLDED,
    Family,
    Use,
    axes,
    binary,
    concat,
    inputs,
    ones,
    reduce_sum,
    slices,
    splits,
    transpose,
    unary,
    zeros,
)

__all__ = ["FAMILIES"]


def _gemm(*transposed: int, arities: tuple[int, ...] = (2, 3), slots: tuple[str, ...] = ("x", "*")) -> tuple[Use, ...]:
    return tuple(Use("Gemm", {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": b}, arities, slots) for b in transposed)


_FUNCTIONS = "Relu Sigmoid Tanh Neg"
_ELEMENTWISE = (
    Family(
        "elementwise",
        inputs("x y", (2, 2)),
        (*unary("Identity Neg Relu"), *binary("Add Sub Mul")),
        runtime=1,
        constants=(zeros(), ones(), zeros(2, 2)),
        lifts="elementwise",
    ),
    Family(
        "elementwise",
        inputs("x y z", (2, 2)),
        (
            *unary("Neg Relu"),
            Use("Add"),
            Use("Sub", slots=("*!Sub",)),
            Use("Mul"),
            Use("Sum", arities=(1, 2, 3), slots=("x|y|z",)),
        ),
        runtime=2,
        lifts="elementwise",
    ),
    Family("elementwise", inputs("x y z", (2, 2)), binary("Add Mul"), runtime=3, lifts="elementwise"),
)

_LAYOUT = (
    *(
        Family(
            "layout",
            (*inputs("x y", (2, 2)), *inputs("t u", (2, 4))),
            (*unary(_FUNCTIONS), *binary("Add Mul Sub", slots=("*!Add,Mul,Sub",)), *concat(-1), *cuts),
            runtime=2,
            elements=8,
            lifts="layout",
            halves=halves,
        )
        for cuts, halves in ((splits(-1), (-1,)), (slices(-1), ()))
    ),
    Family(
        "layout",
        inputs("x y z", (2, 2)),
        (*unary(_FUNCTIONS, slots=("*!Relu,Sigmoid,Tanh,Neg",)), *concat(-1, -2)),
        runtime=3,
        elements=12,
        lifts="layout",
    ),
    Family(
        "layout",
        inputs("x y z t", (2, 2)),
        (*binary("Add Mul Sub", slots=("*!Add,Mul,Sub",)), *concat(-1)),
        runtime=3,
        elements=12,
        lifts="layout",
    ),
    *(
        Family(
            "layout",
            inputs("t u", (2, 4)),
            (*cuts, *binary("Add Mul Sub", slots=("*!Add,Mul,Sub",))),
            runtime=3,
            elements=8,
            lifts="layout",
            halves=halves,
        )
        for cuts, halves in ((splits(-1), (-1,)), (slices(-1), ()))
    ),
    Family("layout", inputs("t", (2, 4)), (*splits(-1), *concat(-1)), runtime=3, elements=8, lifts="layout"),
    Family(
        "layout",
        inputs("x y z", (2, 2)),
        (Use("Concat", {"axis": -1}, (2, 3), ("*!Concat", "*")),),
        runtime=2,
        elements=12,
        lifts="layout",
    ),
    *(  # the second part begins where the first ends, which names the axis: rows, and channels
        Family(
            "layout",
            inputs("x y", shape),
            (*concat(axis), *slices(axis)),
            runtime=2,
            elements=4 * elements,
            lifts="layout",
        )
        for shape, axis, elements in (((2, 2), -2, 2), ((2, 2, 2), -3, 4))
    ),
    Family(
        "layout",
        inputs("x y", (2, 2, 2)),
        (
            *transpose((1, 2, 0), (2, 0, 1)),
            *unary(_FUNCTIONS, slots=("*!Relu,Sigmoid,Tanh,Neg",)),
            *binary("Add Mul Sub", slots=("*!Add,Mul,Sub,Relu,Sigmoid,Tanh,Neg",)),
        ),
        runtime=3,
        lifts="layout",
    ),
    Family(
        "layout",
        inputs("x y", (2, 2)),
        (*transpose((1, 0), slots=("*!Transpose",)), *concat(-1, -2)),
        runtime=3,
        elements=8,
        lifts="layout",
    ),
    Family(
        "layout",
        inputs("x y", (2, 2)),
        (
            *axes("Unsqueeze", (-1,), (-2,), (-3,), slots=("*!Unsqueeze,Squeeze",)),
            *axes("Squeeze", (-1,), (-2,), (-3,), slots=("*!Squeeze",)),
            *unary(_FUNCTIONS, slots=("*!Relu,Sigmoid,Tanh,Neg",)),
            *binary("Add Mul", slots=("*!Add,Mul",)),
        ),
        runtime=3,
        elements=4,
        lifts="layout",
    ),
)

_MATRIX = (
    Family(
        "matrix",
        (*inputs("a b c d", (2, 2)), *inputs("s", ())),
        (*binary("MatMul Add"), Use("Mul", slots=("*", "s")), *transpose((1, 0)), *concat(-1, -2)),
        runtime=3,
        elements=8,
        lifts="matrix",
    ),
    Family(
        "matrix",
        inputs("a b c", (2, 2)),
        (*binary("MatMul"), *concat(-1, -2)),
        runtime=3,
        elements=8,
        lifts="matrix",
        halves=(-1, -2),
    ),
    Family(
        "matrix",
        (*inputs("a", (2, 2)), *inputs("t", (2, 4)), *inputs("u", (4, 2))),
        (*binary("MatMul"), *unary("Neg", slots=("*!Neg",)), *splits(-1, -2)),
        runtime=2,
        elements=8,
        lifts="matrix",
    ),
    Family(
        "matrix",
        (*inputs("a", (2, 2)), *inputs("t", (2, 4)), *inputs("u", (4, 2))),
        (*binary("MatMul"), *slices(-1, -2)),
        runtime=2,
        elements=8,
        lifts="matrix",
    ),
    Family("matrix", inputs("a b c", (2, 2)), (Use("MatMul"), Use("Sub", slots=("*!Sub",))), runtime=3, lifts="matrix"),
    Family("matrix", inputs("a", (2, 2)), binary("MatMul"), runtime=1, constants=(("Eye", {"n": 2}),), lifts="matrix"),
)

_REDUCE = (
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

_LINEAR = (
    Family(
        "linear",
        (*inputs("x", (2, 2)), *inputs("w u", (2, 2), "w", True), *inputs("b c", (2,), "b", True)),
        (
            *_gemm(0, 1, slots=("x", "w!b,c", "w!w,u")),
            Use("MatMul", slots=("x", "w!b,c")),
            Use("Add", slots=("x!x,Add", "*!x,Add")),
            Use("Add", slots=("w0",), run=False, fold=True),
            *transpose((1, 0), slots=("w0",), run=False, fold=True),
            *concat(-1, -2, **FOLDED),
            *concat(-1),
        ),
        runtime=3,
        folded=(1, 2, 0, 0),
        elements=8,
        lifts="matrix",
        halves=(-1,),
    ),
    Family(
        "linear",
        (*inputs("x y", (2, 2)), *inputs("w u", (2, 2), "w", True), *inputs("b", (2,), "b", True)),
        (
            *_gemm(0, slots=("x", "w", "b")),
            *binary("MatMul", slots=("x", "w!b")),
            *binary("Add", slots=("x",)),
            *concat(-1),
            *concat(-2, **FOLDED),
        ),
        runtime=3,
        folded=(1, 1, 1, 0),
        elements=8,
        lifts="matrix",
    ),
    Family(
        "linear",
        # A low-rank branch: u and t have few columns and rows, so that multiplying them out first costs more.
        (
            *inputs("x", (2, 6)),
            *inputs("w", (6, 6), "w", True),
            *inputs("u", (6, 2), "u", True),
            *inputs("t", (2, 6), "t", True),
            *inputs("b", (6,), "b", True),
        ),
        (
            *_gemm(0, arities=(3,), slots=("x!Gemm,Add", "w", "b")),
            *binary("MatMul", slots=("x!Gemm,Add", "w!b")),
            Use("Add", slots=("x!x,Add", "*!x,Add,w,u,t")),
            Use("MatMul", slots=("u", "t"), run=False, fold=True),
            Use("Add", slots=("w", "w1!b,w"), run=False, fold=True),
        ),
        runtime=4,
        folded=(2, 2, 0, 0, 0),
        elements=36,
        unfolded=True,
        lifts="matrix",
    ),
    Family(
        "linear",
        (
            *inputs("x", (2, 2)),
            *inputs("w", (2, 2), "w", True),
            *inputs("b", (2,), "b", True),
            *inputs("s", (), "s", True),
        ),
        (
            *_gemm(0, slots=("x", "w")),
            *binary("MatMul", slots=("x", "w")),
            *binary("Mul", slots=("*", "s")),
            *binary("Mul", slots=("w", "s"), run=False, fold=True),
        ),
        runtime=2,
        folded=(1, 2, 0),
        lifts="matrix",
    ),
)

FAMILIES: tuple[Family, ...] = (*_ELEMENTWISE, *_LAYOUT, *_MATRIX, *_REDUCE, *_LINEAR, *CONV_FAMILIES)
