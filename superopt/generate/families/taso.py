"""The grammar of TASO (Jia et al., "Optimizing Deep Learning Computation with Automatic Generation of Graph
Substitutions", SOSP 2019): its operators at the attributes of its generator, at most 4 a side. Data only.

Square matrices; images of 5 x 5 with as many channels in as out, and kernels of 3 x 3, 1 x 3 and 3 x 1, all padded so
that an image keeps its size. The constants have families of their own: x + xy = x(y + 1) multiplies every other law.
"""

from __future__ import annotations

from superopt.generate.grammar import (
    FOLDED,
    Constant,
    Family,
    Use,
    binary,
    concat,
    dirac,
    inputs,
    ones,
    splits,
    transpose,
    unary,
)

__all__ = ["TASO"]

_SQUARE = (4, 4)
_IMAGE, _BATCHES, _CHANNELS = (2, 2, 5, 5), (4, 2, 5, 5), (2, 4, 5, 5)
_SIZES = ((3, 3), (1, 3), (3, 1))
_KERNELS = frozenset((out, into, *size) for out in (2, 4) for into in (2, 4) for size in _SIZES)
_K3, _DEPTHWISE = (2, 2, 3, 3), (2, 1, 3, 3)


def _conv(pads: tuple[int, ...], group: int = 1) -> Use:
    attrs = {"dilations": (1, 1), "group": group, "pads": pads, "strides": (1, 1)}
    return Use("Conv", attrs, (2,), ("x", "w"))


def _pool(op: str, **attrs: int) -> Use:
    window = {"dilations": (1, 1), "kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (1, 1)}
    return Use(op, {**window, **attrs}, (1,), ("x",))


def _enlarge(height: int, width: int) -> Use:
    """A kernel padded by zeros on all sides."""
    return Use("Pad", {"pads": (0, 0, height, width) * 2, "value": 0.0}, (1,), **FOLDED)


_SAME = (_conv((1, 1, 1, 1)), _conv((0, 1, 0, 1)), _conv((1, 0, 1, 0)))
_AVERAGE = _pool("AveragePool", count_include_pad=1)
_SCALAR = inputs("s", (), "s", True)
_NINE: Constant = ("ConstantOfShape", {"shape": (), "value": 9.0})

TASO: tuple[Family, ...] = (
    Family(
        "taso",
        (*inputs("a b c d", _SQUARE), *inputs("s", ())),
        (
            *binary("MatMul Add Mul", slots=("*!s",)),
            Use("Mul", slots=("*!s", "s")),
            *unary("Relu", slots=("*!s",)),
            *transpose((1, 0)),
            *concat(-1, -2),
            *splits(-1, -2),
        ),
        runtime=4,
        elements=64,
        lifts="matrix",
        halves=(-1, -2),
        wave=2,
        group="taso",
    ),
    Family(
        "taso",
        (
            *inputs("x y z", _IMAGE),
            *inputs("w v", _K3, "w", True),
            *inputs("f h", (2, 2, 1, 3), "f", True),
            *inputs("t u", (2, 2, 3, 1), "t", True),
            *_SCALAR,
        ),
        (
            *_SAME,
            *binary("Add Mul", slots=("x",)),
            Use("Mul", slots=("x", "s")),
            *unary("Relu", slots=("x",)),
            *concat(-3, -4, slots=("x",)),
            *splits(-3, -4, slots=("x",)),
            _AVERAGE,
            _pool("MaxPool"),
            *binary("Add", **FOLDED),
            Use("Mul", slots=("w!s", "s"), run=False, fold=True),
            *concat(-3, -4, **FOLDED),
            _enlarge(1, 0),
            _enlarge(0, 1),
        ),
        runtime=4,
        folded=(1, 1, 1, 1, 1),
        shapes=frozenset({_IMAGE, _BATCHES, _CHANNELS}) | _KERNELS,
        lifts="conv",
        halves=(-3, -4),
        wave=2,
        group="taso",
    ),
)
