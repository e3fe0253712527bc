"""The grammar of pooling: operators that may come before or after it, and equivalent operators. Data only.

Images are large enough for many windows of 2 x 2. With few or large windows, the maximum of every window may be
positive, so that Relu after it has no effect. A 1 x 1 Conv is tried with windows of stride 2, because at stride 1 the
equation holds for Convs with any kernel.
"""

from __future__ import annotations

from typing import Any

from superopt.generate.families.usual import POINT
from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    axes,
    binary,
    concat,
    inputs,
    splits,
    transpose,
    unary,
)

__all__ = ["POOL"]

_IMAGE = (2, 2, 4, 4)
_SHAPES = frozenset((n, c, *size) for n in (2, 4) for c in (2, 4) for size in ((4, 4), (2, 2), (1, 1)))
_POOLS = "MaxPool,AveragePool,GlobalMaxPool,GlobalAveragePool,ReduceMean,ReduceMax"
_ONCE = (f"x!{_POOLS}",)
_CHANNELS = inputs("c", (2, 1, 1), "c", True)
_SCALAR = inputs("s", (), "s", True)


def _window(
    op: str, size: int, stride: int = 1, pad: int = 0, counted: int = 0, slots: tuple[str, ...] = ("x",)
) -> Use:
    attrs = {"dilations": (1, 1), "kernel_shape": (size,) * 2, "pads": (pad,) * 4, "strides": (stride,) * 2}
    return Use(op, attrs | ({"count_include_pad": counted} if op == "AveragePool" else {}), (1,), slots)


def _reduce(keepdims: int) -> tuple[Use, ...]:
    attrs = {"axes": (-2, -1), "keepdims": keepdims}
    return tuple(Use(op, attrs, (1,), _ONCE) for op in ("ReduceMax", "ReduceMean"))


def _family(variables: tuple[Variable, ...], uses: tuple[Use, ...], runtime: int, **kinds: Any) -> Family:
    return Family("pool", variables, uses, runtime, **{"variation": "conv", **kinds})


POOL: tuple[Family, ...] = (
    # Increasing functions and MaxPool: either may come first.
    _family(
        inputs("x", _IMAGE),
        (
            _window("MaxPool", 2, 2, slots=_ONCE),
            *unary("GlobalMaxPool", slots=_ONCE),
            *unary("Relu Sigmoid", slots=("x!Relu,Sigmoid",)),
        ),
        runtime=2,
        shapes=_SHAPES,
    ),
    # MaxPool of sums, maxima, concatenated channels and batches.
    _family(
        (*inputs("x y", _IMAGE), *_SCALAR, *_CHANNELS),
        (
            _window("MaxPool", 2, 2, slots=_ONCE),
            *unary("GlobalMaxPool", slots=_ONCE),
            Use("Add", slots=("x!Add", "w")),
            *binary("Max", slots=("x!Max",)),
            *concat(-3, -4, slots=("x!Concat",)),
            *splits(-3, slots=("x!Split",)),
        ),
        runtime=3,
        split_axes=(-3,),
        shapes=_SHAPES,
    ),
    *(
        # Averages are linear: sums, scales and concatenated channels may come before or after.
        _family(
            (*inputs("x y", _IMAGE), *_SCALAR, *_CHANNELS),
            (
                average,
                *binary("Add", slots=("x!Add,Mul",)),
                *binary("Add Mul", slots=("x!Add,Mul", "w")),
                *concat(-3, -4, slots=("x!Concat",)),
            ),
            runtime=3,
            shapes=_SHAPES,
        )
        for average in (_window("AveragePool", 2, 2, slots=_ONCE), *unary("GlobalAveragePool", slots=_ONCE))
    ),
    # A 1 x 1 Conv before an average or after it.
    _family(
        (
            *inputs("x", _IMAGE),
            *inputs("w", (3, 2, 1, 1), "w", True),
            *inputs("b", (3,), "b", True),
            *inputs("d", (3, 1, 1), "d", True),
        ),
        (
            _window("AveragePool", 2, 2, slots=_ONCE),
            _window("AveragePool", 3, pad=1, slots=_ONCE),
            _window("AveragePool", 3, pad=1, counted=1, slots=_ONCE),
            *unary("GlobalAveragePool", slots=_ONCE),
            Use("Conv", POINT, (2, 3), ("x", "w!b,d", "w!w,d")),
            Use("Add", slots=("x!x,Add", "d")),
            *axes("Squeeze", (-2, -1), slots=("d",), run=False, fold=True),
        ),
        runtime=3,
        folded=(1, 1, 1, 0),
        shapes=frozenset({(3,), *((2, c, *size) for c in (2, 3) for size in ((4, 4), (2, 2), (1, 1)))}),
    ),
    # Global pooling as a reduction.
    _family(
        inputs("x", (2, 3, 4, 5)),
        (
            *unary("GlobalAveragePool GlobalMaxPool", slots=_ONCE),
            *_reduce(0),
            *_reduce(1),
            *axes("Squeeze", (-2, -1), slots=("x",)),
            *transpose((0, 2, 3, 1), (0, 3, 1, 2), slots=("x!Transpose",)),
            *(Use(op, {"axes": (-3, -2), "keepdims": 1}, (1,), _ONCE) for op in ("ReduceMax", "ReduceMean")),
        ),
        runtime=2,
        elements=120,
    ),
    # Pooling of pooled windows: one larger window.
    _family(
        inputs("x", (1, 2, 8, 8)),
        (
            *(_window(op, 2, stride) for op in ("MaxPool", "AveragePool") for stride in (1, 2)),
            *(_window(op, 4, 4) for op in ("MaxPool", "AveragePool")),
            _window("MaxPool", 3),
            _window("MaxPool", 3, pad=1, slots=("x!GlobalMaxPool,GlobalAveragePool,AveragePool",)),
            _window("MaxPool", 5, pad=2, slots=("x!GlobalMaxPool,GlobalAveragePool,AveragePool",)),
            *unary("GlobalMaxPool", slots=("x!AveragePool,GlobalMaxPool",)),
        ),
        runtime=2,
        elements=128,
    ),
    # A Pad before a window as the window's own pads.
    _family(
        inputs("x", _IMAGE),
        (
            *(_window("AveragePool", 2, pad=pad, counted=1, slots=_ONCE) for pad in (0, 1)),
            _window("AveragePool", 2, slots=_ONCE),
            *(_window("MaxPool", 2, pad=pad, slots=_ONCE) for pad in (0, 1)),
            Use("Pad", {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0}, (1,), ("x!Pad",)),
            *unary("Relu", slots=("x!Relu",)),
        ),
        runtime=3,
        elements=144,
    ),
)
