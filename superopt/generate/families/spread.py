"""The grammar of values that are joined, repeated, accumulated, reshaped and converted, and of functions, sums and
reductions before or after that. Graphs are compared at real numbers. Data only."""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    axes,
    binary,
    concat,
    gather,
    inputs,
    reduce,
    reshape,
    slices,
    transpose,
    unary,
    with_values,
    zeros,
)

__all__ = ["SPREAD"]

_SHAPE, _CUBE = (4, 6), (2, 3, 4)
_FUNCTIONS = "Neg Abs Exp Log Sqrt Reciprocal Relu Tanh Sigmoid Floor Erf"
_BINARY = "Add Sub Mul Div Max Min"


def _or(*names: str) -> str:
    return "|".join(name for group in names for name in group.split())


def _family(variables: tuple[Variable, ...], uses: tuple[Use, ...], runtime: int = 2, **kinds: Any) -> Family:
    return Family("spread", variables, uses, runtime, **{"variation": "axes", "reals": True, **kinds})


def _reductions(names: str, *slots: str, axis: int = -1) -> tuple[Use, ...]:
    return tuple(use for keepdims in (0, 1) for use in reduce(names, (axis,), keepdims, *slots))


_JOINED = _or("x y", _FUNCTIONS)
_SUMMED = "x|y|Add|Sub|Mul|Div|Neg"
_ROWS = "x|Slice|Gather|Pad|Tile|Transpose|Unsqueeze|Concat"
_SUMS = "ReduceSum|ReduceMean|ReduceMax|ReduceMin|ReduceProd"

SPREAD: tuple[Family, ...] = (
    # Functions of joined values.
    _family(
        inputs("x y", _SHAPE),
        (*concat(-1, slots=(_JOINED,)), *unary(_FUNCTIONS, slots=("x|y|Concat",))),
        runtime=3,
        variation="layout",
    ),
    # Functions of two joined values.
    _family(
        inputs("x y z w", _SHAPE),
        (
            *concat(-1, slots=(_or("x y z w", _BINARY),)),
            *binary(_BINARY, slots=("x|y|z|w|Concat",)),
        ),
        runtime=3,
        variation="layout",
    ),
    # Functions of joined and scaled values.
    _family(
        (*inputs("x y", _SHAPE), *inputs("s", ()), *inputs("c", (4, 1))),
        (
            *concat(-1, slots=("x|y|Add|Mul|Div|Sub",)),
            *binary("Add Sub Mul Div", slots=("x|y|Concat", "s|c")),
        ),
        runtime=3,
    ),
    # Functions of repeated values.
    _family(
        inputs("x", (4, 1)),
        (
            *with_values("Expand", "shape", (4, 6), (2, 4, 6), slots=(_or("x", _FUNCTIONS),)),
            *unary(_FUNCTIONS, slots=("x|Expand",)),
        ),
        elements=48,
        variation="layout",
    ),
    _family(
        (*inputs("x y", (4, 1)), *inputs("s", ())),
        (
            *with_values("Expand", "shape", (4, 6), slots=(_or("x y", _BINARY),)),
            *binary("Add Sub Mul Div", slots=("x|Expand", "y|s|Expand")),
            *binary("Max Min", slots=("x|Expand", "y|Expand")),
        ),
        runtime=3,
        variation="layout",
    ),
    _family(
        (*inputs("x", (4, 1)), *inputs("r", (1, 6)), *inputs("v", (6,))),
        (
            *with_values("Expand", "shape", (4, 6), (2, 4, 6), (1, 6), (1, 4, 6)),
            *_reductions("Sum Mean Max Min Prod", "Expand"),
            *_reductions("Sum Mean Max Min", "Expand", axis=-2),
            *slices(-1, -2),
            *transpose((1, 0), slots=("x|r|Expand",)),
            *axes("Unsqueeze", (-2,), slots=("v",)),
            *axes("Squeeze", (-1,), slots=("x",)),
            *axes("Squeeze", (-2,), slots=("r",)),
            *gather(-1, 0, (0, 0)),
        ),
        elements=48,
        variation="",
    ),
    # Reductions of rows that are moved, cut, padded and repeated along other axes.
    _family(
        inputs("x", _SHAPE),
        (
            *slices(-2, slots=(f"x|{_SUMS}",))[1:],
            *slices(-1, slots=(_SUMS,))[1:],
            *gather(-2, (2, 0), 1, slots=(f"x|{_SUMS}",)),
            *gather(-1, (2, 0), 1, slots=(_SUMS,)),
            *with_values("Pad", "pads", (1, 0, 2, 0), slots=(f"x|{_SUMS}",), value=0.0),
            *with_values("Pad", "pads", (1, 2), slots=(_SUMS,), value=0.0),
            *with_values("Tile", "repeats", (2, 1), slots=(f"x|{_SUMS}",)),
            *with_values("Tile", "repeats", (2,), slots=(_SUMS,)),
            *axes("Unsqueeze", (-3,), (-2,), slots=(f"x|{_SUMS}",)),
            *_reductions("Sum Mean Max Min Prod", _ROWS),
        ),
        variation="layout",
    ),
    # Sums of padded, repeated and transposed rows.
    _family(
        inputs("x", _SHAPE),
        (
            *with_values("Pad", "pads", (0, 1, 0, 2), (0, 0, 0, 1), (0, 1, 0, 0), slots=("x",), value=0.0),
            *with_values("Tile", "repeats", (1, 2), slots=("x",)),
            *transpose((1, 0), slots=("x|Pad",)),
            *_reductions("Sum Max Min Mean L1 L2 SumSquare", "x|Pad|Tile|Transpose"),
            *_reductions("Sum Max Min Mean L1 L2 SumSquare", "x|Transpose", axis=-2),
        ),
    ),
    *(
        # Reductions of flattened axes.
        _family(
            inputs("x", shape),
            (
                *reshape(*written, slots=("x",)),
                *reduce("Sum Mean Max Min Prod L1 L2 SumSquare LogSumExp", (-1,), 0, "x|Reshape|Flatten"),
                *(
                    use
                    for over in others
                    for use in reduce("Sum Mean Max Min Prod L1 L2 SumSquare LogSumExp", over, 0, "x")
                ),
                *with_values("Flatten", "axis", 1, slots=("x",)),
            ),
            elements=120,
            variation="",
        )
        for shape, written, others in (
            (_CUBE, ((0, -1), (-1, 4), (2, -1)), ((-2, -1),)),
            ((2, 3, 4, 5), ((0, -1), (0, 0, -1)), ((-3, -2, -1), (-2, -1))),
        )
    ),
    # Accumulated sums.
    _family(
        (*inputs("x y", _SHAPE), *inputs("s", ()), *inputs("c", (4, 1))),
        (
            *(
                Use(
                    "CumSum",
                    {"axis": -1, "exclusive": exclusive, "reverse": reverse},
                    (1,),
                    ("x|y|Add|Sub|Mul|Div|Neg",),
                )
                for exclusive in (0, 1)
                for reverse in (0, 1)
            ),
            *binary("Add Sub", slots=("x|y|CumSum|ReduceSum", "x|y|CumSum|ReduceSum")),
            *binary("Mul Div", slots=("x|CumSum", "s|c")),
            *unary("Neg", slots=("x|CumSum",)),
            *reduce("Sum", (-1,), 1, "x"),
        ),
        runtime=3,
    ),
    _family(
        inputs("x", _SHAPE),
        (
            *with_values("CumSum", "axis", -1, -2, exclusive=0, reverse=0),
            *with_values("CumSum", "axis", -1, exclusive=0, reverse=1),
            *transpose((1, 0)),
            *slices(-2, slots=("x|CumSum",))[1:],
            *slices(-1, slots=("x|CumSum",)),
            *gather(-2, (2, 0), 1, slots=("x|CumSum",)),
            *gather(-1, -1, slots=("CumSum",)),
            *reduce("Sum", (-1,), 0, "x"),
            *axes("Unsqueeze", (-3,), slots=("x|CumSum",)),
        ),
        variation="layout",
    ),
    _family(
        inputs("x", (4, 1)),
        (
            *(
                Use("CumSum", {"axis": -1, "exclusive": exclusive, "reverse": reverse}, (1,), ("x",))
                for exclusive in (0, 1)
                for reverse in (0, 1)
            ),
        ),
        runtime=1,
    ),
    *(
        # Conversions of moved values, to and from each element type.
        _family(
            inputs("x", _SHAPE, dtype=dtype),
            (
                *with_values(
                    "Cast", "to", *others, slots=(_or("x", "Transpose Slice Gather Unsqueeze Reshape Concat"),)
                ),
                *transpose((1, 0), slots=("x|Cast",)),
                *slices(-1, slots=("x|Cast",))[1:],
                *gather(-1, (2, 0), 1, slots=("x|Cast",)),
                *axes("Unsqueeze", (-1,), slots=("x|Cast",)),
                *reshape((-1,), (3, 8), (24,), slots=("x|Cast",)),
                *concat(-1, slots=("x|Cast",)),
                *with_values("Expand", "shape", (2, 4, 6), slots=("x|Cast",)),
                *with_values("Tile", "repeats", (1, 2), slots=("x|Cast",)),
            ),
            elements=48,
            variation="layout",
        )
        for dtype, others in (
            ("float", ("double", "float16", "int32", "int64", "bool")),
            ("int32", ("float", "int64", "bool")),
            ("int64", ("float", "int32", "bool")),
            ("bool", ("float", "int32", "int64")),
        )
    ),
    # Functions between two conversions, the second of which undoes the first.
    _family(
        inputs("x", _SHAPE),
        (
            *with_values("Cast", "to", "double", slots=("x",)),
            *with_values("Cast", "to", "float", slots=("Cast|Neg|Abs|Relu|Transpose|Reshape|Slice|Unsqueeze",)),
            *unary("Neg Abs Relu", slots=("x|Cast",)),
            *transpose((1, 0), slots=("x|Cast",)),
            *reshape((-1,), (3, 8), slots=("x|Cast",)),
            *slices(-1, slots=("x|Cast",))[1:],
            *axes("Unsqueeze", (-1,), slots=("x|Cast",)),
        ),
        runtime=3,
        variation="layout",
    ),
    # Padding as joined zeros, and cut again.
    _family(
        inputs("x y", _SHAPE),
        (
            *with_values("Pad", "pads", (0, 0, 0, 3), (0, 3, 0, 0), (0, 3, 0, 2), slots=("x|y|Pad",), value=0.0),
            *concat(-1, slots=("x|y|Zeros|Pad", "x|y|Zeros|Pad")),
            *with_values("Slice", "axes", (-1,), starts=(0,), ends=(6,), steps=(1,), slots=("Pad|Concat",)),
            *with_values("Slice", "axes", (-1,), starts=(3,), ends=(9,), steps=(1,), slots=("Pad|Concat",)),
        ),
        constants=(zeros(4, 3),),
        variation="",
        elements=60,
    ),
    # Selections of repeated selections.
    _family(
        inputs("x", (5, 8)),
        (
            *with_values("Slice", "axes", (-1,), starts=(0,), ends=(8,), steps=(2,)),
            *with_values("Slice", "axes", (-1,), starts=(0,), ends=(4,), steps=(2,)),
            *with_values("Slice", "axes", (-1,), starts=(0,), ends=(8,), steps=(4,)),
            *with_values("Slice", "axes", (-1,), starts=(2,), ends=(6,), steps=(1,)),
            *with_values("Slice", "axes", (-1,), starts=(1,), ends=(3,), steps=(1,)),
            *with_values("Slice", "axes", (-1,), starts=(3,), ends=(5,), steps=(1,)),
            *with_values("Slice", "axes", (-2, -1), starts=(0, 2), ends=(5, 6), steps=(1, 1)),
            *with_values("Slice", "axes", (-2,), starts=(1,), ends=(3,), steps=(1,)),
            *with_values("Slice", "axes", (-2, -1), starts=(1, 2), ends=(3, 6), steps=(1, 1)),
            *with_values("Tile", "repeats", (2, 1), (1, 2), (2, 2)),
            *concat(-1, -2, slots=("x", "x")),
        ),
        elements=160,
        variation="",
    ),
)
