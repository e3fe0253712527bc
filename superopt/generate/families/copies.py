"""The grammar of values that are copied, turned round, flattened or joined again: by Expand, Tile, Concat, Gather and
Reshape, which can each be written as another. Graphs are compared at real numbers. Data only.
"""

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
    ones,
    reduce,
    reshape,
    slices,
    transpose,
    unary,
    with_values,
    zeros,
)

__all__ = ["COPIES"]

_SHAPE, _COLUMN, _ROW = (4, 6), (4, 1), (1, 6)
_SUMS = "Sum Mean Max Min"


def _family(variables: tuple[Variable, ...], *uses: Use, runtime: int = 2, **kinds: Any) -> Family:
    return Family("copies", variables, uses, runtime, **{"variation": "", "reals": True, "elements": 96, **kinds})


def _turned(axis: int, size: int, *slots: str) -> tuple[Use, ...]:
    """Return the Slice that reads an axis of this size from its end."""
    return with_values("Slice", "axes", (axis,), starts=(size - 1,), ends=(-1,), steps=(-1,), slots=slots)


COPIES: tuple[Family, ...] = (
    # A column that is repeated.
    _family(
        inputs("x", _COLUMN),
        *concat(-1, slots=("x|Expand", "x|Expand")),
        *with_values("Expand", "shape", (4, 2), (4, 3), (4, 5), slots=("x",)),
        *with_values("Tile", "repeats", (1, 2), (1, 3), (1, 5), slots=("x",)),
        *with_values("Slice", "axes", (-1,), starts=(1,), ends=(3,), steps=(1,), slots=("Expand|Tile",)),
        runtime=3,
    ),
    _family(
        (*inputs("x", _COLUMN), *inputs("r", _ROW)),
        *with_values("Expand", "shape", _SHAPE, (6, 4), slots=("x|r|Transpose",)),
        *transpose((1, 0), slots=("x|r|Expand",)),
        *binary("Mul", slots=("x|r", "Ones")),
        *binary("Add", slots=("x|r", "Zeros")),
        constants=(ones(*_SHAPE), zeros(*_SHAPE)),
    ),
    # A row or matrix that is repeated along a new axis, and stacked with itself.
    *(
        _family(
            inputs("x", shape),
            *axes("Unsqueeze", (-1 - len(shape),), slots=("x",)),
            *concat(-1 - len(shape), slots=("Unsqueeze", "Unsqueeze")),
            *with_values("Expand", "shape", (2, *shape), slots=("x|Unsqueeze",)),
            *with_values("Tile", "repeats", (2, *(1 for _ in shape)), slots=("Unsqueeze",)),
            *binary("Add", slots=("x", "Zeros")),
            runtime=3,
            constants=(zeros(2, *shape),),
        )
        for shape in ((6,), _SHAPE)
    ),
    # One number that is repeated.
    _family(
        inputs("x", ()),
        *reshape((1, 1), (1,), slots=("x",)),
        *axes("Unsqueeze", (-1,), slots=("x",)),
        *with_values("Expand", "shape", _SHAPE, (6,), slots=("x|Reshape|Unsqueeze",)),
    ),
    # Repeated operands of elementwise operators, which broadcast.
    _family(
        (*inputs("a", _SHAPE), *inputs("r", _ROW), *inputs("x", _COLUMN), *inputs("v", (6,))),
        *with_values("Tile", "repeats", (4, 1), slots=("r",)),
        *with_values("Tile", "repeats", (1, 6), slots=("x",)),
        *axes("Unsqueeze", (-2,), slots=("v",)),
        *binary("Add Sub Mul Div Max Min", slots=("a", "r|x|v|Tile|Unsqueeze")),
        *binary("Sub Div", slots=("r|x|v|Tile|Unsqueeze", "a")),
        variation="layout",
    ),
    # Values that are turned round: the order of a sum, of an extremum, and of an accumulation.
    *(
        _family(
            inputs("x", _SHAPE),
            *_turned(axis, _SHAPE[axis], "x|Slice|CumSum|Neg|Relu|Exp"),
            *(use for keepdims in (0, 1) for use in reduce(f"{_SUMS} Prod", (axis,), keepdims, "x|Slice")),
            *with_values("CumSum", "axis", axis, slots=("x|Slice",), exclusive=0, reverse=0),
            *with_values("CumSum", "axis", axis, slots=("x|Slice",), exclusive=0, reverse=1),
            *unary("Neg Relu Exp", slots=("x|Slice",)),
            runtime=3,
            variation="layout",
        )
        for axis in (-1, -2)
    ),
    _family(inputs("x", _COLUMN), *_turned(-1, 1, "x"), runtime=1, variation="layout"),
    _family(
        inputs("x y", _SHAPE),
        *_turned(-1, _SHAPE[-1], "x|y|Add|Mul|Sub"),
        *binary("Add Mul Sub", slots=("x|Slice", "y|Slice")),
        runtime=3,
    ),
    # Flattened values: sums and extrema over all axes, joined rows, functions.
    *(
        _family(
            inputs("x", shape),
            *reshape((-1,), slots=("x|Neg|Relu|Exp",)),
            *unary("Neg Relu Exp", slots=("x|Reshape",)),
            *reduce(f"{_SUMS} Prod", (-1,), 0, "Reshape"),
            *reduce(f"{_SUMS} Prod", tuple(range(-len(shape), 0)), 0, "x"),
        )
        for shape in (_SHAPE, (2, 3, 4))
    ),
    _family(
        inputs("x y", (2, 3, 4)),
        *concat(0, slots=("x|y|Reshape", "x|y|Reshape")),
        *concat(-1, -2, -3, slots=("x|y|Reshape", "x|y|Reshape")),
        *reshape((-1,), (0, -1), slots=("x|y|Concat",)),
        runtime=3,
    ),
    # Axes of size 1 that a Reshape adds or removes, after reductions too.
    _family(
        inputs("x", _SHAPE),
        *reshape((4, 1), (4,), (0, 1), (0, 1, 6), (4, 1, 6), (0, 6, 1), slots=("x|ReduceSum|ReduceMax|ReduceMean",)),
        *(use for keepdims in (0, 1) for use in reduce("Sum Max Mean", (-1,), keepdims, "x")),
        *axes("Unsqueeze", (-1,), (-2,), slots=("x|ReduceSum|ReduceMax|ReduceMean",)),
        *axes("Squeeze", (-1,), (-2,), slots=("Reshape|ReduceSum|ReduceMax|ReduceMean",)),
    ),
    *(
        _family(
            inputs("x", (4, 6, 2)),
            *reshape(mark, slots=("x",)),
            *axes("Unsqueeze", (axis,), slots=("x",)),
            *transpose((0, 2, 1, 3), (0, 1, 3, 2), slots=("Reshape|Unsqueeze",)),
        )
        for mark, axis in (((0, 0, 1, -1), -2), ((0, 0, -1, 1), -1), ((0, 1, 6, 2), -3), ((1, 4, 6, 2), -4))
    ),
    *(
        _family(
            inputs("x", shape),
            *axes("Squeeze", *squeezed, slots=("x|Transpose",)),
            *transpose((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3), slots=("x",)),
            *reshape((0, -1), slots=("x|Transpose|Squeeze",)),
            *reshape(*shapes, slots=("x",)),
        )
        for shape, squeezed, shapes in (
            ((4, 6, 1, 1), ((-2, -1), (-1,), (-2,)), ((4, 1, 1, 6), (4, 1, 6, 1))),
            ((4, 1, 3, 2), ((-3,),), ((4, 3, 1, 2), (4, 3, 2, 1))),
            ((4, 3, 2, 1), ((-1,),), ((4, 3, 1, 2), (4, 1, 3, 2))),
        )
    ),
    # Selected rows that are joined again, in one list.
    _family(
        inputs("x", (4, 6)),
        *gather(-1, (0, 1), (2,), (2, 3), (0, 1, 2), (0, 1, 2, 3), slots=("x",)),
        *gather(-2, 1, (1,), slots=("x",)),
        *axes("Unsqueeze", (-2,), slots=("Gather",)),
        *slices(-1, slots=("x",)),
        *concat(-1, slots=("Gather|Slice", "Gather|Slice")),
        runtime=3,
    ),
    *(
        _family(
            inputs("x", shape),
            *gather(axis, 0, 1, 2, (0, 1), (1, 2), (0,), (1,), slots=("x",)),
            *axes("Unsqueeze", (axis,), slots=("Gather",)),
            *concat(axis, slots=("Unsqueeze", "Unsqueeze")),
            runtime=5,
        )
        for shape, axis in ((_SHAPE, -1), (_SHAPE, -2), ((2, 4, 6), -3))
    ),
    # Joined values that are joined again.
    _family(
        inputs("a b c d", (4, 2)),
        *concat(-1, slots=("b", "c"), made="Inner"),
        Use("Concat", {"axis": -1}, (3,), ("a", "Inner", "d")),
        Use("Concat", {"axis": -1}, (4,), ("a", "b", "c", "d")),
        elements=32,
    ),
)
