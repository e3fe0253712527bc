"""The grammar of other shapes, selections, repetition and padding, and of what may be done on either side of them.

A selection is worth most before what works on each element, a shape nothing wherever it stands. Data only.
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, axes, binary, concat, inputs, slices, splits, transpose, unary

__all__ = ["REARRANGE"]

_UNARY = "Relu Sigmoid Neg"
_LAYER = {"axis": -1, "epsilon": 1e-05}


def _reshape(*shapes: tuple[int, ...], slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    return tuple(Use("Reshape", {"shape": shape}, (1,), slots) for shape in shapes)


def _expand(*shapes: tuple[int, ...], slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    return tuple(Use("Expand", {"shape": shape}, (1,), slots) for shape in shapes)


def _tile(*repeats: tuple[int, ...], slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    return tuple(Use("Tile", {"repeats": some}, (1,), slots) for some in repeats)


def _gather(axis: int, *indices: int | tuple[int, ...], slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    return tuple(Use("Gather", {"axis": axis, "indices": some}, (1,), slots) for some in indices)


def _flatten(*places: int) -> tuple[Use, ...]:
    return tuple(Use("Flatten", {"axis": place}, (1,)) for place in places)


def _pad(*pads: tuple[int, ...], slots: tuple[str, ...] = ("x",)) -> tuple[Use, ...]:
    return tuple(Use("Pad", {"pads": some, "value": 0.0}, (1,), slots) for some in pads)


def _reduce(names: str, axis: int, keepdims: int) -> tuple[Use, ...]:
    return tuple(Use(f"Reduce{n}", {"axes": (axis,), "keepdims": keepdims}, (1,), ("x",)) for n in names.split())


REARRANGE: tuple[Family, ...] = (
    Family(  # 0 other shapes, one after the other; most are no products of the input's sizes
        "rearrange",
        inputs("x", (2, 3, 8)),
        (
            *_reshape((2, 3, 8), (4, 12), (4, 3, 4), (48,), (2, 24)),
            *_flatten(0, 1, 2),
            *axes("Unsqueeze", (-4,), (-1,), slots=("*!Unsqueeze",)),
            *axes("Squeeze", (-4,), (-1,)),
        ),
        runtime=2,
        elements=48,
        lifts="axes",
        wave=0,
    ),
    Family(  # 1 element by element on either side
        "rearrange",
        (*inputs("x y", (2, 3, 5)), *inputs("b", (5,)), *inputs("s", ())),
        (
            *_reshape((6, 5), (10, 3), slots=("*!b,s,Reshape",)),
            *unary(_UNARY, slots=("*!b,s,Relu,Sigmoid,Neg,Add,Mul",)),
            *binary("Add Mul", slots=("*!b,s,Add,Mul", "*!Add,Mul")),
        ),
        runtime=3,
        lifts="axes",
    ),
    Family(  # 2 transposed heads
        "rearrange",
        inputs("x", (2, 3, 5, 4)),
        (*transpose((0, 2, 1, 3), (0, 1, 3, 2), (0, 2, 3, 1), (0, 3, 1, 2), (0, 3, 2, 1)),),
        runtime=2,
        elements=120,
        lifts="axes",
        wave=0,
    ),
    Family(  # 3 transposed around another shape
        "rearrange",
        inputs("x", (2, 3, 5)),
        (
            *transpose((2, 0, 1), (1, 2, 0), (0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 0)),
            *_reshape((5, 6), (6, 5), (2, 15), (15, 2), (2, 3, 5)),
        ),
        runtime=3,
        lifts="axes",
    ),
    Family(  # 4 transposed axes of size 1
        "rearrange",
        inputs("x", (2, 1, 3)),
        (
            *transpose((1, 0, 2), (0, 2, 1), (1, 0), (2, 0, 1), slots=("*!Transpose",)),
            *_reshape((1, 2, 3), (2, 3), (3, 2), (2, 3, 1)),
            *axes("Squeeze", (-1,), (-2,), (-3,)),
            *axes("Unsqueeze", (-1,), (-2,), (-3,), slots=("*!Unsqueeze",)),
        ),
        runtime=2,
        lifts="axes",
    ),
    Family(  # 5 rows of batches
        "rearrange",
        (
            *inputs("x", (2, 3, 5)),
            *inputs("w", (5, 7), "w", True),
            *inputs("b", (7,), "b", True),
            *inputs("g h", (5,), "g", True),
        ),
        (
            *_reshape((6, 5), (2, 3, 7), (6, 7), (2, 3, 5)),
            *binary("MatMul", slots=("x", "w!b,g,h")),
            Use("Gemm", {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}, (2, 3), ("x", "w!b,g,h", "b")),
            Use("Softmax", {"axis": -1}, (1,), ("x",)),
            Use("LayerNormalization", _LAYER, (2, 3), ("x", "g", "h")),
            *binary("Add", slots=("x!LayerNormalization,Softmax", "b")),
        ),
        runtime=3,
        elements=42,
        lifts="axes",
    ),
    Family(  # 6 batches of heads
        "rearrange",
        (*inputs("x", (2, 3, 4, 5)), *inputs("y", (2, 3, 5, 7))),
        (
            *_reshape((6, 4, 5), (6, 5, 7), (2, 3, 4, 7), (2, 3, 4, 5)),
            *binary("MatMul"),
            Use("Softmax", {"axis": -1}, (1,), ("x!y",)),
        ),
        runtime=4,
        elements=210,
        lifts="axes",
    ),
    Family(  # 7 a row of each
        "rearrange",
        (*inputs("x y", (3, 4, 5)), *inputs("b", (5,)), *inputs("s", ())),
        (
            *_gather(-2, 1, (2, 0), slots=("*!b,s,Gather",)),
            *unary(_UNARY, slots=("*!b,s,Relu,Sigmoid,Neg,Add,Mul",)),
            *binary("Add Mul Sub", slots=("*!b,s,Add,Mul,Sub", "*!Add,Mul,Sub")),
        ),
        runtime=3,
        elements=60,
        lifts="layout",
    ),
    Family(  # 8 rows and columns of products
        "rearrange",
        (*inputs("x", (2, 4, 5)), *inputs("w", (5, 6), "w", True), *inputs("y", (2, 5, 7))),
        (
            *_gather(-2, 1, (2, 0), slots=("x!Gather",)),
            *_gather(-1, 1, (2, 0), slots=("*!Gather",)),
            *_gather(-3, 1, slots=("x!Gather",)),
            *_gather(-1, 1, (2, 0), slots=("w",)),
            *binary("MatMul", slots=("x", "*!x")),
        ),
        runtime=3,
        folded=(1, 1, 0, 0),
        elements=60,
        lifts="matrix",
    ),
    Family(  # 9 rows, along other axes
        "rearrange",
        (*inputs("x", (2, 3, 5)), *inputs("g h", (5,), "g", True)),
        (
            *_gather(-2, 1, (2, 0), slots=("x!Gather",)),
            *_gather(-3, 1, (1, 0), slots=("x!Gather",)),
            *transpose((1, 0, 2), (0, 2, 1), (2, 0, 1), (1, 0), slots=("x",)),
            *axes("Unsqueeze", (-2,), slots=("x",)),
            Use("Softmax", {"axis": -1}, (1,), ("x",)),
            Use("LogSoftmax", {"axis": -1}, (1,), ("x",)),
            Use("LayerNormalization", _LAYER, (2, 3), ("x", "g", "h")),
            Use("RMSNormalization", _LAYER, (2,), ("x", "g")),
            *_reduce("Sum Mean Max", -1, 0),
            *_reduce("Sum Mean Max", -1, 1),
        ),
        runtime=2,
        lifts="layout",
    ),
    Family(  # 10 rows of what was joined
        "rearrange",
        inputs("x y", (2, 3)),
        (
            *_gather(-2, 0, (1, 0), slots=("x!Gather",)),
            *_gather(-1, 0, 1, slots=("x!Gather",)),
            *concat(-1, -2),
            *slices(-1, -2, slots=("x!Slice",)),
            *axes("Squeeze", (-1,), (-2,)),
        ),
        runtime=3,
        elements=12,
        lifts="layout",
    ),
    Family(  # 11 broadcasting repeats
        "rearrange",
        (*inputs("x y", (4, 5)), *inputs("b", (5,)), *inputs("r", (1, 5)), *inputs("c", (4, 1)), *inputs("s", ())),
        (
            *_expand((4, 5), slots=("*!Expand",)),
            *_expand((1, 5), slots=("b",)),
            *_tile((4, 1), slots=("r",)),
            *_tile((1, 5), slots=("c",)),
            *unary(_UNARY, slots=("*!s,Relu,Sigmoid,Neg,Add,Mul",)),
            *binary("Add Mul", slots=("*!Add,Mul,Relu,Sigmoid,Neg",)),
        ),
        runtime=2,
        lifts="axes",
    ),
    Family(  # 12 what is repeated is worked out once
        "rearrange",
        (*inputs("x", (3, 5)), *inputs("y", (3, 5)), *inputs("w", (5, 7), "w", True)),
        (
            *_tile((2, 1), (1, 2), (2, 2), slots=("x!Tile",)),
            *unary(_UNARY, slots=("*!Relu,Sigmoid,Neg",)),
            *binary("Add Mul", slots=("x!Add,Mul",)),
            *binary("MatMul", slots=("x!y", "w")),
            *concat(-1, -2, slots=("x!Concat",)),
            Use("Softmax", {"axis": -1}, (1,), ("x!y",)),
            *transpose((1, 0), slots=("x!y",)),
        ),
        runtime=3,
        elements=42,
        lifts="axes",
    ),
    Family(  # 13 one head for several
        "rearrange",
        (*inputs("x", (2, 3, 4, 5)), *inputs("k", (2, 1, 5, 7)), *inputs("w", (5, 7))),
        (
            *_expand((2, 3, 5, 7), slots=("k|w",)),
            *_tile((1, 3, 1, 1), slots=("k",)),
            *binary("MatMul"),
            *transpose((0, 1, 3, 2), slots=("x!w",)),
            *unary("Relu", slots=("k|x",)),
        ),
        runtime=3,
        elements=210,
        lifts="axes",
    ),
    Family(  # 14 reduced again
        "rearrange",
        (*inputs("c", (4, 1)), *inputs("b", (5,))),
        (
            *_expand((4, 5)),
            *_reduce("Sum Mean Max Min", -1, 1),
            *_reduce("Sum Mean Max Min", -2, 0),
            Use("Softmax", {"axis": -1}, (1,), ("x",)),
        ),
        runtime=2,
        lifts="axes",
    ),
    Family(  # 15 padded images
        "rearrange",
        inputs("x y", (1, 2, 3, 5)),
        (
            *_pad((0, 0, 1, 1, 0, 0, 1, 1), (0,) * 8, (0, 0, 2, 2, 0, 0, 2, 2), slots=("x",)),
            *unary("Relu Neg Sigmoid", slots=("x!Relu,Neg,Sigmoid",)),
            *binary("Add Mul", slots=("x!Add,Mul",)),
            *concat(-3),
        ),
        runtime=3,
        elements=140,
        lifts="axes",
    ),
    Family(  # 16 parts, transposed and joined
        "rearrange",
        inputs("x y", (3, 4)),
        (*splits(-1, slots=("*!Split",)), *concat(-1, -2, slots=("*!Concat",)), *transpose((1, 0))),
        runtime=3,
        elements=24,
        lifts="layout",
        halves=(-1,),
    ),
    Family(  # 17 selected heads
        "rearrange",
        inputs("x", (2, 3, 4, 5)),
        (
            *_gather(-4, 1, slots=("*!Gather",)),
            *_gather(-3, 1, slots=("*!Gather",)),
            *_gather(-2, 1, slots=("*!Gather",)),
            *transpose((2, 0, 1, 3), (0, 2, 1, 3), (1, 0, 2, 3), (1, 0, 2), (0, 2, 1), slots=("*!Transpose",)),
        ),
        runtime=2,
        elements=120,
        lifts="axes",
    ),
)
