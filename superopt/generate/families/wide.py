"""The grammar of all kinds of operators together, at most 3 a side. Data only.

It finds rules between operators that no other family combines: two rows of matrices, images with kernels, and operators
that lead from images to rows. Constants are left out: they multiply the number of rules, and have families of their
own. Optional: most of the rules hold but occur in no model, such as a maximum of a Softmax's sums.
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, Variable, axes, binary, concat, inputs, transpose, unary

__all__ = ["WIDE"]

_ROWS, _SQUARE, _VECTOR = (2, 4), (4, 4), (4,)
_IMAGE, _KERNEL, _POINT, _CHANNELS = (2, 2, 5, 5), (2, 2, 3, 3), (2, 2, 1, 1), (2,)
_WINDOW = {"dilations": (1, 1), "kernel_shape": (2, 2), "pads": (0, 0, 0, 0), "strides": (2, 2)}
_UNARY = "Relu Sigmoid Exp Gelu"
_STATISTICS = tuple(Variable(name, _CHANNELS, name, True) for name in ("g", "h", "e", "f"))


def _conv(pads: int, kernel: str) -> Use:
    attrs = {"dilations": (1, 1), "group": 1, "pads": (pads,) * 4, "strides": (1, 1)}
    return Use("Conv", attrs, (2,), ("x!s", kernel))


def _reduce(ops: str, axis: int) -> tuple[Use, ...]:
    return unary(ops, attrs={"axes": (axis,), "keepdims": 0}, slots=("x!s",))


WIDE: tuple[Family, ...] = (
    # All kinds of operators, three a side.
    Family(
        "wide",
        (
            *inputs("x y z", _ROWS),
            *inputs("m n o", _SQUARE),
            *inputs("v", _VECTOR, "v", True),
            *inputs("s", ()),
            *inputs("p q r", _IMAGE),
            *inputs("k", _KERNEL, "k", True),
            *inputs("d", _POINT, "d", True),
            *_STATISTICS,
        ),
        (
            *binary("Add Mul Max", slots=("*!k,d,g,h,e,f",)),
            *unary(_UNARY, slots=("x!s",)),
            *binary("MatMul", slots=("x!s,p,q,r",)),
            *transpose((1, 0), (0, 2, 3, 1)),
            *concat(-1, -3, slots=("x!s",)),
            *_reduce("ReduceSum ReduceMean ReduceMax", -1),
            Use("Softmax", {"axis": -1}, (1,), ("x!s",)),
            Use("LayerNormalization", {"axis": -1, "epsilon": 1e-05}, (2,), ("x", "v")),
            Use("Gather", {"axis": 0, "indices": 0}, (1,), ("x!s,p,q,r",)),
            *axes("Unsqueeze", (1,), slots=("x!s,Unsqueeze,Gather",)),
            _conv(1, "k"),
            _conv(0, "d"),
            Use("BatchNormalization", {"epsilon": 1e-05}, (5,), ("x!s", "g", "h", "e", "f")),
            Use("MaxPool", _WINDOW, (1,), ("x!s",)),
            Use("AveragePool", {**_WINDOW, "count_include_pad": 0}, (1,), ("x!s",)),
            Use("GlobalAveragePool", {}, (1,), ("x!s",)),
            Use("Flatten", {"axis": 1}, (1,), ("x!s",)),
            Use("BiasGelu", {}, (2,), ("x!s", "v")),
        ),
        runtime=3,
        elements=100,
        variation="elementwise",
        wave=3,
        optional=True,
    ),
)
