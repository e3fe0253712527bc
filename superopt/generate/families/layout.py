"""The grammar of operators that move, cut and join data, and of operators that commute with them. Data only."""

from __future__ import annotations

from superopt.generate.grammar import (
    FOLDED,
    Family,
    Use,
    axes,
    binary,
    concat,
    inputs,
    reshape,
    slices,
    splits,
    transpose,
    unary,
)

__all__ = ["LAYOUT"]

_FUNCTIONS = "Relu Sigmoid Tanh"
LAYOUT: tuple[Family, ...] = (
    *(
        # Elementwise operators and one Concat, Split or Slice: either may come first.
        Family(
            "layout",
            (*inputs("x y", (2, 2)), *inputs("t u", (2, 4))),
            (*unary(_FUNCTIONS), *binary("Add Mul", slots=("*!Add,Mul",)), *concat(-1), *cuts),
            runtime=2,
            elements=8,
            variation="layout",
            split_axes=split_axes,
        )
        for cuts, split_axes in ((splits(-1), (-1,)), (slices(-1), ()))
    ),
    # Functions and Concat along both axes.
    Family(
        "layout",
        inputs("x y z", (2, 2)),
        (*unary(_FUNCTIONS, slots=("*!Relu,Sigmoid,Tanh",)), *concat(-1, -2)),
        runtime=3,
        elements=12,
        variation="layout",
    ),
    # Concat along both axes: rows of columns are columns of rows.
    Family("layout", inputs("x y z t", (2, 2)), concat(-1, -2), runtime=3, elements=16, variation="layout", neutral=6),
    # Sums and products of concatenated values: the operator may come before the Concat.
    Family(
        "layout",
        inputs("x y z t", (2, 2)),
        (*binary("Add Mul", slots=("*!Add,Mul",)), *concat(-1)),
        runtime=3,
        elements=12,
        variation="layout",
    ),
    *(
        # Sums and products of parts: the operator may come before the Split or Slice.
        Family(
            "layout",
            inputs("t u", (2, 4)),
            (*cuts, *binary("Add Mul", slots=("*!Add,Mul",))),
            runtime=3,
            elements=8,
            variation="layout",
            split_axes=split_axes,
        )
        for cuts, split_axes in ((splits(-1), (-1,)), (slices(-1), ()))
    ),
    # Biases and functions of parts, such as the gates of a recurrent layer that are computed together.
    Family(
        "layout",
        (*inputs("t", (2, 4)), *inputs("b c", (2,), "b", True)),
        (
            *unary(_FUNCTIONS, slots=("x!Relu,Sigmoid,Tanh,Add",)),
            *binary("Add Mul", slots=("x!Relu,Sigmoid,Tanh,Add,Mul", "w")),
            *splits(-1, slots=("x",)),
            *concat(-1, **FOLDED),
        ),
        runtime=3,
        folded=(1, 1, 0, 0),
        elements=8,
        variation="layout",
        split_axes=(-1,),
    ),
    # Split and Concat undo each other.
    Family("layout", inputs("t", (2, 4)), (*splits(-1), *concat(-1)), runtime=3, elements=8, variation="layout"),
    # Nested Concat as one Concat.
    Family(
        "layout",
        inputs("x y z", (2, 2)),
        (Use("Concat", {"axis": -1}, (2, 3), ("*!Concat", "*")),),
        runtime=2,
        elements=12,
        variation="layout",
    ),
    *(
        # Slices of a Concat that are its operands; the second begins where the first ends, which determines the axis.
        Family(
            "layout",
            inputs("x y", shape),
            (*concat(axis), *slices(axis)),
            runtime=2,
            elements=4 * elements,
            variation="layout",
        )
        for shape, axis, elements in (((2, 2), -2, 2), ((2, 2, 2), -3, 4))
    ),
    # Cyclic permutations of three axes, and elementwise operators: either may come first.
    Family(
        "layout",
        inputs("x y", (2, 2, 2)),
        (
            *transpose((1, 2, 0), (2, 0, 1)),
            *unary(_FUNCTIONS, slots=("*!Relu,Sigmoid,Tanh",)),
            *binary("Add Mul", slots=("*!Add,Mul,Relu,Sigmoid,Tanh",)),
        ),
        runtime=3,
        variation="layout",
    ),
    # Transpose and Concat: either may come first.
    Family(
        "layout",
        inputs("x y", (2, 2)),
        (*transpose((1, 0), slots=("*!Transpose",)), *concat(-1, -2)),
        runtime=3,
        elements=8,
        variation="layout",
    ),
    # Unsqueeze and Squeeze, and elementwise operators: either may come first.
    Family(
        "layout",
        inputs("x y", (2, 2)),
        (
            *axes("Unsqueeze", (-1,), (-2,), (-3,), slots=("*!Unsqueeze,Squeeze",)),
            *axes("Squeeze", (-1,), (-2,), (-3,), slots=("*!Squeeze",)),
            *unary(_FUNCTIONS, slots=("*!Relu,Sigmoid,Tanh",)),
            *binary("Add Mul", slots=("*!Add,Mul",)),
        ),
        runtime=3,
        elements=4,
        variation="layout",
    ),
    # Rows of several inputs plus one row vector: added together or separately.
    Family(
        "layout",
        (*inputs("x y", (2, 3)), *inputs("t", (4, 3)), *inputs("b", (3,), "b", True)),
        (
            *binary("Add", slots=("x!Add", "b")),
            *splits(-2, slots=("x!x,y,Split,Concat",)),
            *concat(-2, slots=("x!t,Split,Concat",)),
        ),
        runtime=3,
        elements=12,
        variation="layout",
        split_axes=(-2,),
    ),
    # Rows of two inputs, concatenated along their axis or stacked: one is a Reshape or Transpose of the other.
    Family(
        "layout",
        inputs("x y", (3, 5)),
        (
            *concat(-1, slots=("x|y",)),
            *axes("Unsqueeze", (-2,), (-3,), slots=("x|y",)),
            *concat(-2, -3, slots=("x!x,y,Concat,Transpose,Reshape",)),
            *reshape((0, -1, 5), slots=("x!x,y,Unsqueeze,Transpose,Reshape",)),
            *transpose((1, 0, 2), slots=("x!x,y,Unsqueeze,Transpose",)),
        ),
        runtime=3,
    ),
)
