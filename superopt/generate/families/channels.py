"""The grammar of channels and images that are chosen or reordered before or after a convolution, which its weights can
do as well, and of convolutions of one pixel, which are layers of a row. Data only."""

from __future__ import annotations

from typing import Any

from superopt.generate.families.usual import GEMM, POINT
from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    axes,
    binary,
    gather,
    inputs,
    reshape,
    slices,
    transpose,
)

__all__ = ["CHANNELS"]

_IMAGE, _PIXEL = (2, 3, 4, 5), (2, 3, 1, 1)
_REVERSED = (2, 1, 0)  # red, green and blue, or blue, green and red
_CONV = {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1)}


def _weights(name: str, *shape: int) -> tuple[Variable, ...]:
    return inputs(name, shape, name, True)


def _folded(op: str, attrs: dict[str, Any], slot: str, made: str) -> Use:
    return Use(op, attrs, (1,), (slot,), run=False, fold=True, made=made)


def _family(variables: tuple[Variable, ...], *uses: Use, folds: int, runtime: int = 2) -> Family:
    return Family(
        "channels", variables, uses, runtime, (folds,) * (runtime + 1), elements=360, variation="conv", unfolded=True
    )


CHANNELS: tuple[Family, ...] = (
    # Channels in another order: before.
    _family(
        (*inputs("x", _IMAGE), *_weights("w", 4, 3, 3, 3), *_weights("b", 4)),
        *gather(-3, _REVERSED, slots=("x",)),
        Use("Conv", _CONV, (2, 3), ("x|Gather", "w|Reordered", "b")),
        _folded("Gather", {"axis": -3, "indices": _REVERSED}, "w", made="Reordered"),
        folds=1,
    ),
    # Channels in another order, or some of them: after.
    _family(
        (*inputs("x", _IMAGE), *_weights("w", 4, 3, 3, 3), *_weights("b", 4)),
        *gather(-3, (2, 0, 1), slots=("Conv",)),
        Use("Conv", _CONV, (2, 3), ("x", "w|Reordered", "b|Reordered")),
        *(
            _folded("Gather", {"axis": axis, "indices": (2, 0, 1)}, of, made="Reordered")
            for of, axis in (("w", -4), ("b", -1))
        ),
        folds=2,
    ),
    # Some of the images.
    _family(
        (*inputs("x", (4, 3, 4, 5)), *_weights("w", 4, 3, 3, 3), *_weights("b", 4)),
        *slices(-4, slots=("x|Conv",)),
        Use("Conv", _CONV, (2, 3), ("x|Slice", "w", "b")),
        folds=0,
    ),
    # A layer of each pixel's channels, which are last or whose pixels are in one row.
    _family(
        (*inputs("x", _IMAGE), *_weights("m", 3, 4), *_weights("b", 4)),
        *transpose((0, 2, 3, 1), slots=("x",)),
        *transpose((0, 3, 1, 2), slots=("MatMul|Add",)),
        *binary("MatMul", slots=("Transpose", "m")),
        *binary("Add", slots=("MatMul", "b")),
        _folded("Transpose", {"perm": (1, 0)}, "m", made="Columns"),
        _folded("Unsqueeze", {"axes": (-2, -1)}, "Columns", made="Kernel"),
        Use("Conv", POINT, (2, 3), ("x", "Kernel", "b")),
        folds=2,
        runtime=4,
    ),
    _family(
        (*inputs("x", _IMAGE), *_weights("m", 4, 3)),
        *reshape((2, 3, 20), slots=("x",)),
        *reshape((2, 4, 4, 5), slots=("MatMul",)),
        *binary("MatMul", slots=("m", "Reshape")),
        _folded("Unsqueeze", {"axes": (-2, -1)}, "m", made="Kernel"),
        Use("Conv", POINT, (2,), ("x", "Kernel")),
        folds=1,
        runtime=3,
    ),
    # A convolution of one pixel as such a layer: of rows of channels, or of rows of pixels.
    _family(
        (*inputs("x", _IMAGE), *_weights("w", 4, 3, 1, 1), *_weights("b", 4)),
        *transpose((0, 2, 3, 1), slots=("x",)),
        *transpose((0, 3, 1, 2), slots=("MatMul|Add",)),
        *binary("MatMul", slots=("Transpose", "Columns")),
        *binary("Add", slots=("MatMul", "b")),
        _folded("Squeeze", {"axes": (-2, -1)}, "w", made="Rows"),
        _folded("Transpose", {"perm": (1, 0)}, "Rows", made="Columns"),
        Use("Conv", POINT, (2, 3), ("x", "w", "b")),
        folds=2,
        runtime=4,
    ),
    _family(
        (*inputs("x", _IMAGE), *_weights("w", 4, 3, 1, 1)),
        *reshape((0, 0, -1), (2, 3, 20), slots=("x",)),
        *reshape((0, -1, 4, 5), (2, 4, 4, 5), slots=("MatMul",)),
        *binary("MatMul", slots=("Rows", "Reshape")),
        _folded("Squeeze", {"axes": (-2, -1)}, "w", made="Rows"),
        Use("Conv", POINT, (2,), ("x", "w")),
        folds=1,
        runtime=3,
    ),
    # Images of one pixel, as rows.
    _family(
        (*inputs("x", _PIXEL), *_weights("w", 4, 3, 1, 1), *_weights("b", 4)),
        *axes("Squeeze", (-2, -1), slots=("x|Conv",)),
        Use("Flatten", {"axis": 1}, (1,), ("x|Conv",)),
        Use("Conv", POINT, (2, 3), ("x", "w", "b")),
        Use("Gemm", {**GEMM, "transB": 1}, (2, 3), ("Squeeze|Flatten", "Row", "b")),
        _folded("Squeeze", {"axes": (-2, -1)}, "w", made="Row"),
        folds=1,
    ),
)
