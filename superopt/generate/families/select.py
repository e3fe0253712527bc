"""The grammar of selections: rows, heads and parts that are taken before or after what works on each of them.

A selection is worth most before what works on each element. Data only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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
_LAYER = {"axis": -1, "epsilon": 1e-05}
_GEMM = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
_ELEMENTWISE = "Relu,Sigmoid,Neg,Add,Sub,Mul,Div"
_FUNCTIONS = "Softmax,LayerNormalization,RMSNormalization,ReduceSum,ReduceMean,ReduceMax"
_PLACED = f"x!{_FUNCTIONS}"  # of functions of a row there is one at most
_STACKED = "*!x,y,Unsqueeze,Gather,Add,Max,Min,ReduceSum,ReduceMax,ReduceMin"
_MOVED = "x!Gather,Transpose,Unsqueeze"
_SWAPPED, _LAST, _FIRST = (0, 2, 1, 3), (0, 2, 3, 1), (0, 3, 1, 2)


def _family(variables: tuple[Variable, ...], uses: tuple[Use, ...], runtime: int = 2, **kinds: Any) -> Family:
    return Family("select", variables, uses, runtime, **{"variation": "axes", **kinds})


_SELECTIONS: tuple[Family, ...] = (
    _family(  # a row of each
        (*inputs("x y", (3, 4, 5)), *inputs("b", (5,)), *inputs("s", ())),
        (
            *gather(-2, 1, (2, 0), slots=("*!b,s,Gather",)),
            *unary(_UNARY, slots=(f"*!b,s,{_ELEMENTWISE}",)),
            *binary("Add Mul", slots=(f"*!b,s,{_ELEMENTWISE}", f"*!{_ELEMENTWISE}")),
        ),
        runtime=3,
        elements=60,
        variation="layout",
    ),
    _family(  # of products
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
        _family(
            (*inputs("x", (4, 6)), *inputs("w", (6, 8), "w", True), *inputs("b", (8,), "b", True)),
            (
                *gather(-2, (2, 0), slots=("x!Slice,Split,Gather",)),
                *cut(-1, -2, slots=("x!Slice,Split,Gather",)),
                *cut(-1, slots=("w|b",), run=False, fold=True),
                Use("Gemm", _GEMM, (3,), ("x!Gemm", "w!b", "w!w")),
            ),
            folded=(2, 2, 0),
            variation="matrix",
        )
        for cut in (slices, splits)
    ),
    _family(  # of what was joined
        inputs("x y", (3, 4)),
        (*gather(-2, 0), *gather(-1, 0), *concat(-1, -2, slots=("*!Concat,Gather", "*!Concat"))),
        elements=32,
        variation="layout",
    ),
    _family(  # of what was stacked
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
    _family(  # of queries, keys and values
        inputs("x", (2, 3, 4, 5, 6)),
        (
            *gather(-5, 1, slots=("*!Gather",)),
            *gather(-3, 1, slots=("x!Transpose",)),
            *transpose((2, 0, 3, 1, 4), _SWAPPED, slots=("*!Transpose",)),
        ),
        elements=720,
    ),
    _family(  # rows whose heads are apart
        inputs("x", (3, 5, 8)),
        (*gather(-2, 1), *gather(-3, 1), *reshape((3, 5, 4, 2), (3, 4, 2), slots=("*!Reshape",))),
        elements=120,
    ),
    _family(  # parts, transposed and joined
        inputs("x y", (3, 4)),
        (*splits(-1, slots=("*!Split",)), *concat(-1, -2, slots=("*!Concat",)), *transpose((1, 0))),
        runtime=3,
        elements=24,
        variation="layout",
        split_axes=(-1,),
    ),
    _family(  # all rows one after the other
        inputs("a", (2, 3, 5)),
        (*gather(-3, 0, 1, slots=("a",)), *concat(-2, slots=("x!a,Concat,Reshape",)), *reshape((6, 5), slots=("a",))),
        runtime=3,
        variation="",
    ),
    _family(  # queries, keys and values, of heads each: parts of a row, or of an axis that is made of it
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
)

_RARELY: tuple[Family, ...] = (
    _family(  # along other axes
        (*inputs("x", (2, 3, 5)), *inputs("g h", (5,), "g", True)),
        (
            *gather(-2, 1, (2, 0), slots=(_MOVED,)),
            *gather(-3, 1, slots=(_MOVED,)),
            *transpose((1, 0, 2), (1, 0), slots=(_MOVED,)),
            *axes("Unsqueeze", (-2,), slots=(_MOVED,)),
            *along("Softmax", _PLACED),
            Use("LayerNormalization", _LAYER, (2, 3), (_PLACED, "g", "h")),
            Use("RMSNormalization", _LAYER, (2,), (_PLACED, "g")),
            *reduce("Mean", (-1,), 0, _PLACED),
            *reduce("Mean", (-1,), 1, _PLACED),
        ),
        variation="layout",
    ),
    _family(  # of heads
        inputs("x", (2, 3, 4, 5)),
        (
            *(use for axis in (-4, -3, -2) for use in gather(axis, 1, slots=("*!Gather",))),
            *transpose((2, 0, 1, 3), _SWAPPED, (1, 0, 2, 3), (1, 0, 2), (0, 2, 1), slots=("*!Transpose",)),
        ),
        elements=120,
    ),
    *(  # some rows or columns of each
        _family(
            (*inputs("x", (4, 6)), *inputs("b", (6,)), *inputs("c", (4, 1)), *inputs("s", ())),
            (*cuts, *binary("Add Mul Sub Div", slots=(f"*!b,c,s,{_ELEMENTWISE}", "b|c|s"))),
            variation="layout",
        )
        for cuts in (slices(-1, -2, slots=("*!b,c,s,Slice",)), splits(-1, -2, slots=("*!b,c,s,Split",)))
    ),
    _family(  # columns of what is broadcast along them
        (*inputs("a", (2, 3, 4, 5)), *inputs("n", (2, 3, 4, 1))),
        (*gather(-1, (2, 0), slots=("*!n,Gather",)), *binary("Add Mul Sub Div", slots=("*!n,Add,Mul,Sub,Div", "n"))),
        elements=120,
    ),
    *(  # parts, transposed
        _family(
            inputs("x", (2, 3, 5, 4)),
            (*cuts, *transpose(_SWAPPED, (0, 1, 3, 2), _LAST, _FIRST, slots=("*!Transpose",))),
            elements=120,
        )
        for cuts in (splits(-1, -2, slots=("*!Split",)), slices(-1, -2, slots=("*!Slice",)))
    ),
)

# What is rarely met waits to be asked for.
SELECT: tuple[Family, ...] = (*_SELECTIONS, *(replace(family, optional=True) for family in _RARELY))
