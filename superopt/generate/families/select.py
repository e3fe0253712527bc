"""The grammar of selections: rows, heads and parts that are taken before or after an operator on each of them. Data
only.

A selection saves most before elementwise operators.
"""

from __future__ import annotations

import math
from typing import Any

from superopt.generate.families.usual import ELEMENTWISE_OPS, GEMM, LAYER, ONE_ROW_FUNCTION
from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    along,
    axes,
    binary,
    concat,
    gather,
    inputs,
    reduce,
    reshape,
    slices,
    splits,
    transpose,
    unary,
)

__all__ = ["SELECT"]

_UNARY = "Relu Sigmoid"
_STACKED = "*!x,y,Unsqueeze,Gather,Add,Max,Min,ReduceSum,ReduceMax,ReduceMin"
_MOVED = "x!Gather,Transpose,Unsqueeze"
_SWAPPED, _LAST, _FIRST = (0, 2, 1, 3), (0, 2, 3, 1), (0, 3, 1, 2)


def _family(variables: tuple[Variable, ...], uses: tuple[Use, ...], runtime: int = 2, **kinds: Any) -> Family:
    return Family("select", variables, uses, runtime, **{"variation": "axes", **kinds})


_SELECTIONS: tuple[Family, ...] = (
    # Selected rows and elementwise operators: the selection may come first.
    _family(
        (*inputs("x y", (3, 4, 5)), *inputs("b", (5,)), *inputs("s", ())),
        (
            *gather(-2, 1, (2, 0), slots=("*!b,s,Gather",)),
            *unary(_UNARY, slots=(f"*!b,s,{ELEMENTWISE_OPS}",)),
            *binary("Add Mul", slots=(f"*!b,s,{ELEMENTWISE_OPS}", f"*!{ELEMENTWISE_OPS}")),
        ),
        runtime=3,
        elements=60,
        variation="layout",
    ),
    # Selected rows, columns and batches of products: the selection may come first.
    _family(
        (*inputs("x", (2, 4, 5)), *inputs("w", (5, 6), "w", True), *inputs("y", (2, 5, 7))),
        (
            *gather(-2, 1, (2, 0), slots=("x!Gather",)),
            *gather(-1, (2, 0), slots=("x!Gather",)),
            *gather(-3, 1, slots=("x!Gather",)),
            *binary("MatMul", slots=("*!w,y,MatMul", "*!x,MatMul")),
        ),
        runtime=3,
        elements=60,
        variation="matrix",
    ),
    *(
        # Cut rows and columns of a Gemm: the cut may come first.
        _family(
            (*inputs("x", (4, 6)), *inputs("w", (6, 8), "w", True), *inputs("b", (8,), "b", True)),
            (
                *gather(-2, (2, 0), slots=("x!Slice,Split,Gather",)),
                *cut(-1, -2, slots=("x!Slice,Split,Gather",)),
                *cut(-1, slots=("w|b",), run=False, fold=True),
                Use("Gemm", GEMM, (3,), ("x!Gemm", "w!b", "w!w")),
            ),
            folded=(2, 2, 0),
            variation="matrix",
        )
        for cut in (slices, splits)
    ),
    # A selection from concatenated values: from one of the operands.
    _family(
        inputs("x y", (3, 4)),
        (*gather(-2, 0), *gather(-1, 0), *concat(-1, -2, slots=("*!Concat,Gather", "*!Concat"))),
        elements=32,
        variation="layout",
    ),
    # Selections and reductions of stacked values: one of the operands, their sum or maximum.
    _family(
        inputs("x y", (3, 5)),
        (
            *axes("Unsqueeze", (-1,), (-2,), (-3,), slots=("x|y",)),
            *concat(-1, -2, -3, slots=("*!x,y,Concat",)),
            *(use for axis in (-1, -2, -3) for use in gather(axis, 0, 1, slots=("*!x,y,Unsqueeze,Gather",))),
            *(use for axis in (-1, -2, -3) for use in reduce("Sum Max", (axis,), 0, _STACKED)),
            *binary("Add Max", slots=("x|y",)),
        ),
        runtime=4,
        elements=30,
        variation="layout",
    ),
    # Selections of queries, keys and values from one tensor: the selection may come before the Transpose.
    _family(
        inputs("x", (2, 3, 4, 5, 6)),
        (
            *gather(-5, 1, slots=("*!Gather",)),
            *gather(-3, 1, slots=("x!Transpose",)),
            *transpose((2, 0, 3, 1, 4), _SWAPPED, slots=("*!Transpose",)),
        ),
        elements=720,
    ),
    # Selected rows whose heads are split by Reshape.
    _family(
        inputs("x", (3, 5, 8)),
        (*gather(-2, 1), *gather(-3, 1), *reshape((3, 5, 4, 2), (3, 4, 2), slots=("*!Reshape",))),
        elements=120,
    ),
    # Parts of transposed and concatenated matrices.
    _family(
        inputs("x y", (3, 4)),
        (*splits(-1, slots=("*!Split",)), *concat(-1, -2, slots=("*!Concat",)), *transpose((1, 0))),
        runtime=3,
        elements=24,
        variation="layout",
        split_axes=(-1,),
    ),
    # All rows, selected and concatenated: a Reshape.
    _family(
        inputs("a", (2, 3, 5)),
        (*gather(-3, 0, 1, slots=("a",)), *concat(-2, slots=("x!a,Concat,Reshape",)), *reshape((6, 5), slots=("a",))),
        runtime=3,
        variation="",
    ),
    # Queries, keys and values as parts of a row, or of an axis that Reshape makes of the row.
    _family(
        inputs("a", (2, 5, 3 * 7 * 4)),
        (
            *reshape((2, 5, 3, 7, 4), slots=("a",)),
            *reshape((2, 5, 7, 4), slots=("x!a,Reshape,Transpose,Gather",)),
            *transpose((2, 0, 3, 1, 4), _SWAPPED, slots=("x!a,Transpose,Gather,Split",)),
            *gather(-5, 0, 1, 2, slots=("x!a,Gather,Reshape,Split",)),
            *splits(-1, parts=3, slots=("a",)),
        ),
        runtime=3,
        elements=840,
        variation="",
    ),
    *(
        # One index: a part of one element, without its axis. Frameworks unbind queries, keys and values by parts.
        _family(
            inputs("a", shape),
            (
                *splits(-len(shape), parts=3, slots=("a",), thin=True),
                *axes("Squeeze", (-len(shape),), slots=("x!a,Gather,Squeeze",)),
                *gather(-len(shape), 0, 1, 2, slots=("a",)),
            ),
            elements=math.prod(shape),
            variation=variation,
        )
        for shape, variation in (((3, 4, 5), "axes"), ((3, 2, 2, 2, 2), ""))
    ),
)

_RARELY: tuple[Family, ...] = (
    # Selections along other axes, and functions of rows: the selection may come first.
    _family(
        (*inputs("x", (2, 3, 5)), *inputs("g h", (5,), "g", True)),
        (
            *gather(-2, 1, (2, 0), slots=(_MOVED,)),
            *gather(-3, 1, slots=(_MOVED,)),
            *transpose((1, 0, 2), (1, 0), slots=(_MOVED,)),
            *axes("Unsqueeze", (-2,), slots=(_MOVED,)),
            *along("Softmax", ONE_ROW_FUNCTION),
            Use("LayerNormalization", LAYER, (2, 3), (ONE_ROW_FUNCTION, "g", "h")),
            Use("RMSNormalization", LAYER, (2,), (ONE_ROW_FUNCTION, "g")),
            *reduce("Mean", (-1,), 0, ONE_ROW_FUNCTION),
            *reduce("Mean", (-1,), 1, ONE_ROW_FUNCTION),
        ),
        variation="layout",
    ),
    # Selected heads and Transpose: the selection may come first.
    _family(
        inputs("x", (2, 3, 4, 5)),
        (
            *(use for axis in (-4, -3, -2) for use in gather(axis, 1, slots=("*!Gather",))),
            *transpose((2, 0, 1, 3), _SWAPPED, (1, 0, 2, 3), (1, 0, 2), (0, 2, 1), slots=("*!Transpose",)),
        ),
        elements=120,
    ),
    *(
        # Cut rows or columns and elementwise operators with broadcast operands: the cut may come first.
        _family(
            (*inputs("x", (4, 6)), *inputs("b", (6,)), *inputs("c", (4, 1)), *inputs("s", ())),
            (*cuts, *binary("Add Mul Sub Div", slots=(f"*!b,c,s,{ELEMENTWISE_OPS}", "b|c|s"))),
            variation="layout",
        )
        for cuts in (slices(-1, -2, slots=("*!b,c,s,Slice",)), splits(-1, -2, slots=("*!b,c,s,Split",)))
    ),
    # Selected columns of elementwise operators with a broadcast column.
    _family(
        (*inputs("a", (2, 3, 4, 5)), *inputs("n", (2, 3, 4, 1))),
        (*gather(-1, (2, 0), slots=("*!n,Gather",)), *binary("Add Mul Sub Div", slots=("*!n,Add,Mul,Sub,Div", "n"))),
        elements=120,
    ),
    *(
        # Parts of transposed values: the cut may come first.
        _family(
            inputs("x", (2, 3, 5, 4)),
            (*cuts, *transpose(_SWAPPED, (0, 1, 3, 2), _LAST, _FIRST, slots=("*!Transpose",))),
            elements=120,
        )
        for cuts in (splits(-1, -2, slots=("*!Split",)), slices(-1, -2, slots=("*!Slice",)))
    ),
)

SELECT: tuple[Family, ...] = (*_SELECTIONS, *_RARELY)
