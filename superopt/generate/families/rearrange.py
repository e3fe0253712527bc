"""The grammar of reshaping, repetition and padding, and of operators that may come before or after. Data only.

A repetition costs least after elementwise operators. A Reshape costs nothing at any place.
"""

from __future__ import annotations

from typing import Any

from superopt.generate.families.usual import ELEMENTWISE_OPS, GEMM, LAYER
from superopt.generate.grammar import (
    FOLDED,
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
    transpose,
    unary,
)

__all__ = ["REARRANGE"]

_UNARY = "Relu Sigmoid"
_OF_IMAGE = "ReduceSum,ReduceMean,ReduceMax,ReduceMin,GlobalAveragePool,GlobalMaxPool"
_OF_TEN = frozenset({(2, 5), (1, 2, 5), (2, 1, 5), (2, 5, 1), (2, 5, 1, 1), (2, 1, 5, 1), (2, 1, 1, 5), (1, 2, 1, 5)})
_SWAPPED, _IMAGE = (0, 2, 1, 3), (2, 3, 4, 5)
_LAST, _FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # permutations that move channels last and first


def _expand(*shapes: tuple[int, ...], slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    return tuple(Use("Expand", {"shape": shape}, (1,), slots) for shape in shapes)


def _tile(*repeats: tuple[int, ...], slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    return tuple(Use("Tile", {"repeats": some}, (1,), slots) for some in repeats)


def _pad(*pads: tuple[int, ...], slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    return tuple(Use("Pad", {"pads": some, "value": 0.0}, (1,), slots) for some in pads)


def _flatten(*places: int, slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    return tuple(Use("Flatten", {"axis": place}, (1,), slots) for place in places)


def _family(variables: tuple[Variable, ...], uses: tuple[Use, ...], runtime: int = 2, **kinds: Any) -> Family:
    return Family("rearrange", variables, uses, runtime, **{"variation": "axes", **kinds})


_SHAPES: tuple[Family, ...] = (
    *(
        # Transpose, Reshape, Expand, Tile and Pad that change nothing.
        _family(
            inputs("x", shape),
            (
                *transpose(tuple(range(len(shape)))),
                *reshape(shape),
                *_expand(shape),
                *_tile((1,) * len(shape)),
                *_pad((0,) * (2 * len(shape))),
            ),
            runtime=1,
            elements=120,
            wave=0,
        )
        for shape in ((2, 3), (2, 3, 5), (2, 3, 5, 4))
    ),
    # Two Reshapes in a row: only the last one counts. No size of a shape is determined by the other shapes.
    _family(inputs("x", (3, 12)), reshape((4, 9), (6, 6)), elements=36, wave=0),
    # Reshape, Flatten, Unsqueeze and Squeeze: one written as another, and several in a row.
    _family(
        inputs("x", (2, 3, 8)),
        (
            *reshape((2, 3, 8), (2, 24), (6, 8), (48,), (4, 12)),
            *_flatten(0, 1, 2),
            *axes("Unsqueeze", (-4,), (-1,), slots=("*!Unsqueeze",)),
            *axes("Squeeze", (-4,), (-1,)),
        ),
        elements=48,
    ),
    *(
        # Two Transposes in a row: one.
        _family(inputs("x", shape), transpose(*perms), elements=120, wave=0)
        for shape, perms in (
            ((2, 3, 5), ((1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1))),
            ((2, 3, 5, 4), (_SWAPPED, (0, 1, 3, 2), _LAST, _FIRST)),
        )
    ),
    *(
        # Two Unsqueezes or Squeezes in a row: one, with two axes.
        _family(
            inputs("a", shape),
            (*axes(op, *((axis,) for axis in places), slots=("*",)), *axes(op, *pairs, slots=("a",))),
            shapes=_OF_TEN,
        )
        for op, shape, places, pairs in (
            ("Unsqueeze", (2, 5), (-1, -2, -3), ((-2, -1), (-3, -2), (-3, -1))),
            ("Squeeze", (2, 5, 1, 1), (-1, -2), ((-2, -1),)),
            ("Squeeze", (2, 1, 1, 5), (-2, -3), ((-3, -2),)),
        )
    ),
    # Reshape and elementwise operators: either may come first.
    _family(
        (*inputs("x y", (2, 3, 5)), *inputs("b", (5,)), *inputs("s", ())),
        (
            *reshape((6, 5), (10, 3), slots=("*!b,s,Reshape",)),
            *unary(_UNARY, slots=(f"*!b,s,{ELEMENTWISE_OPS}",)),
            *binary("Add Mul", slots=(f"*!b,s,{ELEMENTWISE_OPS}", f"*!{ELEMENTWISE_OPS}")),
        ),
        runtime=3,
    ),
    # Reshape and operators on rows, and back: MatMul and Gemm, Softmax, normalisations.
    _family(
        (
            *inputs("x", (2, 3, 5)),
            *inputs("w", (5, 7), "w", True),
            *inputs("b", (7,), "b", True),
            *inputs("g h", (5,), "g", True),
        ),
        (
            *reshape((6, 5), (2, 3, 7), (2, 3, 5), slots=("x!Reshape",)),
            *binary("MatMul", slots=("x!Gemm,MatMul,Add", "w!b,g,h")),
            Use("Gemm", GEMM, (2, 3), ("x", "w!b,g,h", "b")),
            *along("Softmax", "x!MatMul,Gemm,Add,Softmax,LogSoftmax"),
            Use("LayerNormalization", LAYER, (2, 3), ("x!Softmax,LogSoftmax", "g", "h")),
            Use("RMSNormalization", LAYER, (2,), ("x!Softmax,LogSoftmax", "g")),
            *binary("Add", slots=("x!LayerNormalization,Softmax,LogSoftmax", "b")),
        ),
        runtime=3,
        elements=42,
    ),
    # A Transpose of the last two axes, with the axes of batch and heads merged: exporters write attention so.
    _family(
        inputs("x", (2, 3, 5, 4)),
        (
            *reshape((6, 5, 4), (6, 4, 5), (2, 3, 4, 5), slots=("x!Reshape",)),
            *transpose((0, 2, 1), (0, 1, 3, 2), slots=("x!Transpose",)),
        ),
        runtime=3,
        elements=120,
    ),
    # A batch of one: Squeeze and Unsqueeze around products.
    _family(
        (*inputs("x", (1, 3, 4, 5)), *inputs("y", (1, 3, 5, 7))),
        (
            *axes("Squeeze", (-4,), slots=("*!Unsqueeze,MatMul",)),
            *axes("Unsqueeze", (-4,), slots=("*!x,y,Squeeze,Unsqueeze",)),
            *binary("MatMul", slots=("*!y,MatMul,Softmax,Unsqueeze", "*!x,MatMul,Softmax,Unsqueeze")),
            *along("Softmax", "x!y,MatMul,Softmax,Unsqueeze"),
        ),
        runtime=4,
        elements=105,
    ),
    # Averages over the pixels of an image, or over the flattened row of pixels.
    _family(
        inputs("a", _IMAGE),
        (
            *reshape((2, 3, 20), slots=("a",)),
            *reshape((2, 3), slots=("*!a,Reshape,Flatten",)),
            *_flatten(1, slots=("*!a,Reshape,Flatten",)),
            *(use for keepdims in (0, 1) for use in reduce("Mean", (-2, -1), keepdims, "a")),
            *(use for keepdims in (0, 1) for use in reduce("Mean", (-1,), keepdims, f"*!a,Flatten,{_OF_IMAGE}")),
            *unary("GlobalAveragePool", slots=("a",)),
        ),
        elements=120,
    ),
    # Flattened images, concatenated: Concat of channels may come first.
    _family(
        inputs("x y", _IMAGE),
        (*_flatten(1, slots=("*!Flatten",)), *concat(-1, -3, slots=("*!Concat",))),
        runtime=3,
        elements=240,
    ),
    # Transposes between channels first and channels last, and what may come before or after them.
    _family(
        (*inputs("x y", _IMAGE), *inputs("b", (3,), "b", True)),
        (
            *transpose(_LAST, slots=("x!Transpose",)),
            *transpose(_FIRST, slots=("x!x,y,Transpose",)),
            *binary("Add Mul", slots=("x!x,y,Concat,Softmax,Add,Sub,Mul,Div", "b")),
            *binary("Add Mul", slots=("x|y", "w1!b")),
            *axes("Unsqueeze", (-2, -1), **FOLDED),
            *concat(-1, slots=("x!x,y,Add,Sub,Mul,Div",)),
            *concat(-3, slots=("x|y",)),
            *along("Softmax", "x!x,y,Concat,Add,Sub,Mul,Div,Softmax,LogSoftmax"),
            *along("Softmax", "x|y", axis=-3),
        ),
        runtime=4,
        folded=(1, 1, 0, 0, 0),
        elements=240,
    ),
)

_REPETITIONS: tuple[Family, ...] = (
    *(
        # Expand before an elementwise operator: broadcasting repeats anyway.
        _family(
            (*inputs("a", shape), *inputs("b", (5,)), *inputs("c", (4, 1)), *inputs("s", ())),
            (
                *_expand(shape, slots=("b|c|s",)),
                *_expand((*(1 for _ in shape[1:]), 5), slots=("b",)),
                *binary("Add Mul Sub", slots=("a", f"x!a,{ELEMENTWISE_OPS}")),
            ),
            elements=120,
        )
        for shape in ((2, 3, 4, 5),)
    ),
    # Expand of a mask of keys before an elementwise operator.
    _family(
        (*inputs("a", (2, 3, 4, 5)), *inputs("m", (2, 1, 1, 5))),
        (
            *_expand((2, 3, 4, 5), (2, 1, 4, 5), slots=("m",)),
            *binary("Add Mul", slots=("a", "x!a,Add,Mul")),
        ),
        elements=120,
    ),
    # Elementwise operators on expanded values: computed once, then expanded.
    _family(
        (*inputs("b", (5,)), *inputs("c", (4, 1)), *inputs("s", ())),
        (
            *_expand((4, 5), (3, 4, 5), slots=("x!s",)),
            *unary(_UNARY, slots=(f"x!s,Exp,{ELEMENTWISE_OPS}",)),
            *binary("Add Mul", slots=(f"x!s,Exp,{ELEMENTWISE_OPS}", "s")),
        ),
        elements=60,
    ),
    # Heads that share keys and values: products broadcast over heads without Expand.
    _family(
        (*inputs("q", (2, 3, 4, 5)), *inputs("k", (2, 1, 7, 5)), *inputs("v", (2, 1, 5, 7)), *inputs("w", (5, 7))),
        (
            *_expand((2, 3, 7, 5), slots=("k",)),
            *_expand((2, 3, 5, 7), slots=("v|w",)),
            *_expand((2, 1, 5, 7), slots=("w",)),
            *transpose((0, 1, 3, 2), slots=("x!q,v,w,Transpose,MatMul",)),
            *binary("MatMul", slots=("q", "x!q,MatMul")),
        ),
        runtime=3,
        elements=210,
    ),
)

_RARELY: tuple[Family, ...] = (
    *(
        # Moves of an axis of size 1: Transpose, Reshape, Squeeze and Unsqueeze can each be written as another.
        _family(
            inputs("a", shape),
            (
                *transpose(*perms, slots=("a",)),
                *reshape(*others, slots=("a",)),
                *axes("Squeeze", (place,), slots=("a",)),
                *gather(place, 0, slots=("a",)),
                *axes("Unsqueeze", (place,), slots=("*!a",)),
            ),
            elements=30,
        )
        for shape, place, perms, others in (
            ((2, 1, 5, 3), -3, (_SWAPPED, _LAST), ((2, 5, 1, 3), (2, 5, 3, 1), (2, 5, 3))),
            ((2, 5, 1, 1), -1, (_LAST,), ((2, 1, 1, 5), (2, 5, 1))),
        )
    ),
    # Functions of repeated rows, and reductions over a repeated axis.
    _family(
        (*inputs("c", (4, 1)), *inputs("b", (5,)), *inputs("g", (5,), "g", True)),
        (
            *_expand((4, 5), slots=("x!Expand,ReduceMean,ReduceMax",)),
            *reduce("Mean", (-1,), 1, "*!g,b,Softmax,LogSoftmax,LayerNormalization"),
            *reduce("Mean", (-2,), 0, "*!g,c,Softmax,LogSoftmax,LayerNormalization"),
            *along("Softmax", "x!c,ReduceMean,ReduceMax,ReduceMin,Softmax,LogSoftmax"),
            Use("LayerNormalization", LAYER, (2,), ("x!c,ReduceMean,Softmax,LogSoftmax", "g")),
        ),
    ),
    # Tile before an elementwise operator: broadcasting repeats anyway.
    _family(
        (*inputs("a", (4, 5)), *inputs("r", (1, 5)), *inputs("c", (4, 1))),
        (
            *_tile((4, 1), slots=("r",)),
            *_tile((1, 5), slots=("c",)),
            *binary("Add Mul Sub Div", slots=("a", f"x!a,{ELEMENTWISE_OPS}")),
        ),
    ),
)

_ENLARGED: tuple[Family, ...] = (
    # DepthToSpace and SpaceToDepth undo each other, and commute with functions, which a Conv before them may compute.
    _family(
        inputs("x", (1, 12, 4, 6)),
        (
            *(
                Use("DepthToSpace", {"blocksize": 2, "mode": mode}, (1,), ("x!DepthToSpace",))
                for mode in ("DCR", "CRD")
            ),
            Use("SpaceToDepth", {"blocksize": 2}, (1,), ("x!SpaceToDepth",)),
            *unary(_UNARY, slots=(f"x!{_UNARY.replace(' ', ',')}",)),
        ),
        elements=288,
    ),
)

# Pads are literals: those before convolutions with kernels of 3 and 7, and of stride 2.
_PADDING: tuple[Family, ...] = tuple(
    # Pad by zeros, and operators that map zero to zero: either may come first.
    _family(
        inputs("x y", (1, 2, 3, 5)),
        (
            *_pad(pads, slots=("x!Pad",)),
            *unary("Relu", slots=("x!Relu,Add,Mul,Concat",)),
            *binary("Add Mul", slots=("x!Add,Mul,Relu,Concat",)),
            *concat(-3, slots=("x!Add,Mul,Relu,Concat",)),
        ),
        runtime=3,
        elements=400,
    )
    for pads in ((0, 0, 1, 1, 0, 0, 1, 1), (0, 0, 0, 0, 0, 0, 1, 1))
)

REARRANGE: tuple[Family, ...] = (*_SHAPES, *_REPETITIONS, *_ENLARGED, *_RARELY, *_PADDING)
