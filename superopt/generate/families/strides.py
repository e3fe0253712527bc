"""The grammar of strides: values that a stride skips need not be computed. Data only.

A MaxPool with windows of 1 x 1 and stride 2 takes every other row and column, as the stride of a 1 x 1 Conv does. It
commutes with all operators on single points, and its stride can be moved into a Conv before it.
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, Variable, binary, concat, inputs, unary

__all__ = ["STRIDES"]

_IMAGE, _HALF = (2, 2, 4, 4), (2, 2, 2, 2)
_BOTH = frozenset((2, channels, *size) for channels in (2, 4) for size in ((4, 4), (2, 2)))
_STATISTICS = tuple(Variable(name, (2,), name, True) for name in ("g", "h", "m", "v"))


def _window(op: str, size: int, stride: int) -> Use:
    attrs = {"dilations": (1, 1), "kernel_shape": (size,) * 2, "pads": (0,) * 4, "strides": (stride,) * 2}
    return Use(op, attrs | ({"count_include_pad": 0} if op == "AveragePool" else {}), (1,), ("x",))


def _conv(kernel: str, pad: int, stride: int, op: str = "Conv") -> Use:
    attrs = {"dilations": (1, 1), "group": 1, "pads": (pad,) * 4, "strides": (stride,) * 2}
    return Use(op, attrs, (2, 3), ("x", kernel, "b"))


_EVERY_OTHER = _window("MaxPool", 1, 2)

STRIDES: tuple[Family, ...] = (
    # A stride after operators on points or windows: taken before them, or by the Conv before it.
    Family(
        "strides",
        (
            *inputs("x", _IMAGE),
            *inputs("w", (2, 2, 3, 3), "w", True),
            *inputs("u", (2, 2, 1, 1), "u", True),
            *inputs("b", (2,), "b", True),
            *inputs("c", (2, 1, 1), "c", True),
            *_STATISTICS,
        ),
        (
            _EVERY_OTHER,
            _window("AveragePool", 1, 2),
            *(_conv("w", 1, stride) for stride in (1, 2)),
            *(_conv("u", 0, stride) for stride in (1, 2)),
            Use("BatchNormalization", {"epsilon": 1e-05}, (5,), ("x!Conv,BatchNormalization", "g", "h", "m", "v")),
            *unary("Relu Sigmoid", slots=("x!Relu,Sigmoid,Conv",)),
            *binary("Add Mul", slots=("x!Relu,Sigmoid,Add,Mul,Conv", "c")),
        ),
        runtime=2,
        shapes=frozenset({_IMAGE, _HALF}),
        variation="conv",
    ),
    # A stride after operators with two inputs: taken before them.
    Family(
        "strides",
        inputs("x y", _IMAGE),
        (_EVERY_OTHER, *binary("Add Mul Sub Max", slots=("x!Add,Mul,Sub,Max",)), *concat(-3, slots=("x",))),
        runtime=3,
        shapes=_BOTH,
        variation="conv",
    ),
    # A stride after a pooling: taken by the pooling.
    Family(
        "strides",
        inputs("x", (1, 2, 8, 8)),
        (
            *(_window(op, 2, stride) for op in ("MaxPool", "AveragePool") for stride in (1, 2)),
            _window("MaxPool", 3, 1),
            *(_window(op, 4, 4) for op in ("MaxPool", "AveragePool")),
            _EVERY_OTHER,
        ),
        runtime=2,
        elements=128,
        variation="conv",
    ),
)
