"""The grammar of matrix products and of operators that move, repeat, cut and reduce their operands. Data only."""

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
    slices,
    transpose,
    unary,
    with_values,
    zeros,
)

__all__ = ["PRODUCTS"]

_LEFT, _RIGHT = inputs("x", (4, 6)), inputs("y", (6, 5))


def _family(variables: tuple[Variable, ...], uses: tuple[Use, ...], runtime: int = 2, **kinds: Any) -> Family:
    return Family("products", variables, uses, runtime, **{"variation": "matrix", "reals": True, **kinds})


_OF_ROWS, _OF_COLUMNS = ("x|MatMul",), ("y|MatMul",)

PRODUCTS: tuple[Family, ...] = (
    # Rows of the left operand are rows of the product.
    _family(
        (*_LEFT, *_RIGHT),
        (
            *slices(-2, slots=_OF_ROWS)[1:],
            *gather(-2, (2, 0), 1, slots=_OF_ROWS),
            *with_values("Pad", "pads", (1, 0, 2, 0), slots=_OF_ROWS, value=0.0),
            *with_values("Tile", "repeats", (2, 1), slots=_OF_ROWS),
            *reduce("Sum Mean", (-2,), 0, *_OF_ROWS),
            *reduce("Sum Mean", (-2,), 1, *_OF_ROWS),
            *axes("Unsqueeze", (-3,), slots=_OF_ROWS),
            *unary("Neg", slots=_OF_ROWS),
            *binary("MatMul", slots=("x|Slice|Gather|Pad|Tile|ReduceSum|ReduceMean|Unsqueeze|Neg", "y")),
        ),
    ),
    # Columns of the right operand are columns of the product.
    _family(
        (*_LEFT, *_RIGHT),
        (
            *slices(-1, slots=_OF_COLUMNS)[1:],
            *gather(-1, (2, 0), 1, slots=_OF_COLUMNS),
            *with_values("Pad", "pads", (0, 1, 0, 2), slots=_OF_COLUMNS, value=0.0),
            *with_values("Tile", "repeats", (1, 2), slots=_OF_COLUMNS),
            *reduce("Sum Mean", (-1,), 0, *_OF_COLUMNS),
            *reduce("Sum Mean", (-1,), 1, *_OF_COLUMNS),
            *unary("Neg", slots=_OF_COLUMNS),
            *binary("MatMul", slots=("x", "y|Slice|Gather|Pad|Tile|ReduceSum|ReduceMean|Neg")),
        ),
    ),
    # Repeated rows and columns.
    _family(
        (*inputs("r", (1, 6)), *_RIGHT),
        (
            *with_values("Expand", "shape", (4, 6), (2, 1, 6), slots=("r",)),
            *with_values("Expand", "shape", (4, 5), (2, 1, 5), slots=("MatMul",)),
            *binary("MatMul", slots=("r|Expand", "y")),
        ),
        variation="",
    ),
    _family(
        (*_LEFT, *inputs("c", (6, 1))),
        (
            *with_values("Expand", "shape", (6, 5), slots=("c",)),
            *with_values("Expand", "shape", (4, 5), slots=("MatMul",)),
            *binary("MatMul", slots=("x", "c|Expand")),
        ),
        variation="",
    ),
    # Products of a number of vectors: elementwise products and their sums.
    _family(
        (*inputs("c", (4, 1)), *inputs("r", (1, 6))),
        (*binary("MatMul Mul", slots=("c|r", "c|r")), *transpose((1, 0), slots=("c|r|MatMul",))),
        runtime=2,
    ),
    _family(
        (*_LEFT, *inputs("v", (6, 1))),
        (
            *binary("MatMul", slots=("x", "v")),
            *transpose((1, 0), slots=("v",)),
            *axes("Squeeze", (-1,), slots=("v|MatMul",)),
            *binary("Mul", slots=("x", "Transpose|Squeeze")),
            *reduce("Sum", (-1,), 1, "Mul"),
            *reduce("Sum", (-1,), 0, "Mul"),
        ),
        runtime=3,
    ),
    _family(
        inputs("x y", (4, 6)),
        (
            *axes("Unsqueeze", (-2,), (-1,), slots=("x|y",)),
            *binary("MatMul", slots=("Unsqueeze", "Unsqueeze")),
            *binary("Mul", slots=("x|y", "x|y")),
            *axes("Squeeze", (-2, -1), (-1,), (-2,), slots=("MatMul",)),
            *reduce("Sum", (-1,), 0, "Mul"),
            *reduce("Sum", (-1,), 1, "Mul"),
        ),
        runtime=4,
    ),
    _family(
        (*_LEFT, *_RIGHT),
        (
            *axes("Unsqueeze", (-1,), slots=("x",)),
            *axes("Unsqueeze", (-3,), slots=("y",)),
            *binary("MatMul", slots=("x", "y")),
            *binary("Mul", slots=("Unsqueeze", "Unsqueeze")),
            *reduce("Sum", (-2,), 0, "Mul"),
        ),
        runtime=4,
    ),
    # Products of parts, side by side.
    _family(
        (*inputs("x", (4, 3)), *inputs("z", (4, 3)), *inputs("y", (6, 5))),
        (
            *concat(-1, slots=("x", "z")),
            *slices(-2, slots=("y",)),
            *binary("MatMul", slots=("x|z|Concat", "y|Slice")),
            *binary("Add", slots=("MatMul", "MatMul")),
        ),
        runtime=5,
        variation="matrix",
    ),
    # Products with zeros.
    *(
        _family(inputs("x", shape), binary("MatMul", slots=("x|Zeros",) * 2), runtime=1, constants=(constant,))
        for shape, constant in (((4, 6), zeros(6, 6)), ((6, 4), zeros(6, 6)))
    ),
    # Scaled products: either factor may be scaled.
    _family(
        (*_LEFT, *_RIGHT, *inputs("s", ()), *inputs("c", (4, 1)), *inputs("r", (5,))),
        (
            *binary("Mul Div", slots=("x|MatMul", "s|c")),
            *binary("Mul Div", slots=("y|MatMul", "s|r")),
            *binary("MatMul", slots=("x|Mul|Div|Neg", "y|Mul|Div|Neg")),
            *unary("Neg", slots=("x|y|MatMul",)),
        ),
    ),
)
