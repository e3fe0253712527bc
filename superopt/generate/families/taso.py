"""The grammar of TASO: its operators at the attributes of its generator, at most 4 a side. Data only.

TASO: Jia et al., "Optimizing Deep Learning Computation with Automatic Generation of Graph Substitutions", SOSP 2019.
Square matrices; images of 5 x 5 with as many channels in as out; kernels of 3 x 3, 1 x 3 and 3 x 1, padded so that an
image keeps its size. Constants have families of their own: with x + xy = x(y + 1) each constant would multiply the
number of rules.
"""

from __future__ import annotations

from dataclasses import replace

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
# Sizes of matrices. 6, half of three concatenated parts, is left out: cuts at other places than the joins give rules
# that only hold for these sizes.
_MATRICES = frozenset((m, n) for m in (2, 4, 8, 12) for n in (2, 4, 8, 12) if m * n <= 64)
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
    """Return a Pad of a kernel by zeros on all sides."""
    return Use("Pad", {"pads": (0, 0, height, width) * 2, "value": 0.0}, (1,), **FOLDED)


_SAME = (_conv((1, 1, 1, 1)), _conv((0, 1, 0, 1)), _conv((1, 0, 1, 0)))
_AVERAGE = _pool("AveragePool", count_include_pad=1)
_SCALAR = inputs("s", (), "s", True)
_NINE: Constant = ("ConstantOfShape", {"shape": (), "value": 9.0})


def _matrices(runtime: int, wave: int, split_axes: tuple[int, ...] = ()) -> Family:
    return Family(
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
        runtime=runtime,
        shapes=_MATRICES,
        variation="matrix",
        split_axes=split_axes,
        wave=wave,
        group="taso",
    )


def _images(runtime: int, wave: int, *more: Use, split_axes: tuple[int, ...] = ()) -> Family:
    return Family(
        "taso",
        (
            *inputs("x y z", _IMAGE),
            *inputs("w v", _K3, "w", True),
            *inputs("f", (2, 2, 1, 3), "f", True),
            *inputs("t", (2, 2, 3, 1), "t", True),
            *_SCALAR,
        ),
        (
            *_SAME,
            *binary("Add Mul", slots=("x",)),
            Use("Mul", slots=("x", "s")),
            *unary("Relu", slots=("x",)),
            *concat(-3, -4, slots=("x",)),
            _AVERAGE,
            *more,
            *binary("Add", **FOLDED),
            Use("Mul", slots=("w!s", "s"), run=False, fold=True),
            *concat(-3, -4, **FOLDED),
            _enlarge(1, 0),
            _enlarge(0, 1),
        ),
        runtime=runtime,
        folded=(1, 1, 1, 1, 1),
        shapes=frozenset({_IMAGE, _BATCHES, _CHANNELS}) | _KERNELS,
        variation="conv",
        split_axes=split_axes,
        wave=wave,
        group="taso",
    )


_CONSTANT_MATRICES = Family(
    "taso",
    (*inputs("a b", _SQUARE), *inputs("s", ())),
    (
        Use("MatMul", slots=("*!s,Ones",)),
        Use("Add", slots=("*!s",)),
        Use("Mul", slots=("*!s,Eye",)),
        Use("Mul", slots=("*!s", "s")),
    ),
    runtime=2,
    folded=(1, 1, 1),
    constants=(("Eye", {"n": 4}), ones(*_SQUARE)),
    shapes=_MATRICES,
    variation="matrix",
    wave=2,
    group="taso",
)


def _constant_kernels(group: int, kernel: tuple[int, ...], constants: tuple[Constant, ...], *made: Use) -> Family:
    """Return the family with `made`, operators on constants: kernels of a mean over the window."""
    return Family(
        "taso",
        (*inputs("x", _IMAGE), *inputs("w", kernel, "w", True), *_SCALAR),
        (
            _conv((1, 1, 1, 1), group),
            Use("Add", slots=("x",)),
            Use("Mul", slots=("x", "s")),
            *concat(-3, slots=("x",)),
            _AVERAGE,
            *made,
            Use("Add", slots=("w3!s", "w3!s"), run=False, fold=True),
            Use("Mul", slots=("w3!s", "s"), run=False, fold=True),
            *concat(-4, slots=("w3!s",), run=False, fold=True),
        ),
        runtime=2,
        folded=(3, 4, 0),
        constants=constants,
        shapes=frozenset({_IMAGE, _CHANNELS, kernel, (2, 2), (2, 2, 1, 1), (2 * kernel[0], *kernel[1:]), ()}),
        variation="conv",
        wave=2,
        group="taso",
    )


# Ones / 9 for each channel; the identity between channels, spread over the window; the mean of a Dirac kernel.
_NINTH = Use("Div", slots=("Ones", "ConstantOfShape"), run=False, fold=True)
_SPREAD = (
    Use("Unsqueeze", {"axes": (-2, -1)}, (1,), ("Eye",), run=False, fold=True),
    Use("Mul", slots=("Ones", "w1!s,w"), run=False, fold=True),
    Use("Div", slots=("w2!s,w,Ones", "ConstantOfShape"), run=False, fold=True),
)
_CONSTANT_KERNELS = (
    _constant_kernels(2, _DEPTHWISE, (ones(*_DEPTHWISE), _NINE), _NINTH),
    _constant_kernels(1, _K3, (ones(*_K3), _NINE, ("Eye", {"n": 2})), *_SPREAD),
    _constant_kernels(1, _K3, (dirac(1, *_K3),), replace(_AVERAGE, slots=("Dirac",), run=False, fold=True)),
    _constant_kernels(2, _DEPTHWISE, (dirac(2, *_DEPTHWISE),)),
)

# Pairs of outputs, parts of Splits of images and MaxPool with 3 operators only: with 4 there are thousands of
# conjectures, and all of them follow.
TASO: tuple[Family, ...] = (
    _matrices(3, 2, (-1, -2)),
    replace(_matrices(4, 3), optional=True),
    _images(3, 2, _pool("MaxPool"), *splits(-3, -4, slots=("x",)), split_axes=(-3, -4)),
    replace(_images(4, 3), optional=True),
    _CONSTANT_MATRICES,
    *_CONSTANT_KERNELS,
)
