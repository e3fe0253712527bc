"""All kinds of operators together, at most 3 a side: laws between kinds that have no family in common. Data only.

Two rows of matrices, images with kernels, and what leads from the ones to the others. Constants are left out: they
multiply every law, and have families of their own.
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, Variable, axes, binary, concat, inputs, transpose, unary

__all__ = ["WIDE"]

_ROWS, _SQUARE, _VECTOR = (2, 4), (4, 4), (4,)
_IMAGE, _KERNEL, _POINT, _CHANNELS = (1, 2, 6, 6), (2, 2, 3, 3), (2, 2, 1, 1), (2,)
_WINDOW = {"dilations": (1, 1), "kernel_shape": (2, 2), "pads": (0, 0, 0, 0), "strides": (2, 2)}
_UNARY = "Relu Sigmoid Exp Gelu"
_STATISTICS = tuple(Variable(name, _CHANNELS, name, True) for name in ("g", "h", "e", "f"))


def _conv(pads: int, kernel: str) -> Use:
    attrs = {"dilations": (1, 1), "group": 1, "pads": (pads,) * 4, "strides": (1, 1)}
    return Use("Conv", attrs, (2,), ("x!s,t", kernel))


def _reduce(ops: str, axis: int) -> tuple[Use, ...]:
    return unary(ops, attrs={"axes": (axis,), "keepdims": 1}, slots=("x!s,t",))


WIDE: tuple[Family, ...] = (
    Family(
        "wide",
        (
            *inputs("x y z", _ROWS),
            *inputs("m n o", _SQUARE),
            *inputs("v", _VECTOR, "v", True),
            *inputs("s t", ()),
            *inputs("p q r", _IMAGE),
            *inputs("k", _KERNEL, "k", True),
            *inputs("d", _POINT, "d", True),
            *_STATISTICS,
        ),
        (
            *binary("Add Mul Max", slots=("*!k,d,g,h,e,f",)),
            *unary(_UNARY, slots=("x!s,t",)),
            *binary("MatMul"),
            *transpose((1, 0), (0, 2, 3, 1)),
            *concat(-1, -3, slots=("x!s,t",)),
            *_reduce("ReduceSum ReduceMean ReduceMax", -1),
            Use("Softmax", {"axis": -1}, (1,), ("x!s,t",)),
            Use("LayerNormalization", {"axis": -1, "epsilon": 1e-05}, (2,), ("x", "v")),
            Use("Gather", {"axis": 0, "indices": 0}, (1,), ("x!s,t,p,q,r",)),
            *axes("Unsqueeze", (0,), slots=("x!s,t,Unsqueeze",)),
            _conv(1, "k"),
            _conv(0, "d"),
            Use("BatchNormalization", {"epsilon": 1e-05}, (5,), ("x!s,t", "g", "h", "e", "f")),
            Use("MaxPool", _WINDOW, (1,), ("x!s,t",)),
            Use("AveragePool", {**_WINDOW, "count_include_pad": 0}, (1,), ("x!s,t",)),
            Use("GlobalAveragePool", {}, (1,), ("x!s,t",)),
            Use("Flatten", {"axis": 1}, (1,), ("x!s,t",)),
            Use("BiasGelu", {}, (2,), ("x!s,t", "v")),
            Use("FusedMatMul", {"alpha": 1.0, "transA": 0, "transB": 1}, (2,), ("x!s,t",)),
        ),
        runtime=3,
        elements=80,
        lifts="elementwise",
        wave=2,
    ),
)
