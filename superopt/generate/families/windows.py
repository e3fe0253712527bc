"""The grammar of pooled windows of images and sequences, and of increasing functions, shifts and scales before or after
them. Graphs are compared at real numbers. Data only."""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import Family, Use, Variable, axes, binary, concat, inputs, reduce, unary

__all__ = ["WINDOWS"]

_INCREASING = "Exp Log Sqrt Tanh Sigmoid Relu Floor Erf"
_UNDILATED = {"dilations": (1, 1)}
_MAPPED = "|".join(_INCREASING.split())


def _pool(op: str, rank: int, size: int, stride: int, pad: int, *slots: str, counted: int = 0) -> Use:
    """Return a pooling over all axes of an image (rank 4) or a sequence (rank 3)."""
    n = rank - 2
    attrs = {"dilations": (1,) * n, "kernel_shape": (size,) * n, "pads": (pad,) * (2 * n), "strides": (stride,) * n}
    return Use(op, attrs | ({"count_include_pad": counted} if op == "AveragePool" else {}), (1,), slots)


def _family(variables: tuple[Variable, ...], uses: tuple[Use, ...], runtime: int = 2, **kinds: Any) -> Family:
    return Family("windows", variables, uses, runtime, **{"variation": "conv", "reals": True, **kinds})


_SHAPES = {3: (2, 2, 6), 4: (2, 2, 4, 6)}

WINDOWS: tuple[Family, ...] = (
    *(
        # Maxima of windows and increasing functions.
        _family(
            inputs("x", shape),
            (
                _pool("MaxPool", rank, 3, 1, 1, f"x|{_MAPPED}"),
                _pool("MaxPool", rank, 2, 2, 0, f"x|{_MAPPED}"),
                *unary("GlobalMaxPool", slots=(f"x|{_MAPPED}",)),
                *unary(_INCREASING, slots=("x|MaxPool|GlobalMaxPool",)),
            ),
        )
        for rank, shape in _SHAPES.items()
    ),
    *(
        # Maxima of windows of shifted and scaled values, and of maxima.
        _family(
            (*inputs("x y", shape), *inputs("s", ()), *inputs("c", (2,) + (1,) * (rank - 2))),
            (
                _pool("MaxPool", rank, 3, 1, 1, "x|y|Add|Sub|Mul|Div|Max|Concat"),
                *unary("GlobalMaxPool", slots=("x|y|Add|Sub|Max|Concat",)),
                *binary("Add Sub", slots=("x|MaxPool|GlobalMaxPool", "s|c")),
                *binary("Max", slots=("x|y|MaxPool|GlobalMaxPool", "x|y|MaxPool|GlobalMaxPool")),
                *unary("Exp Abs Relu", slots=("s",)),
                *binary("Mul Div", slots=("x|MaxPool", "Exp|Abs|Relu")),
                *concat(1 - rank, slots=("x|MaxPool|GlobalMaxPool", "y|MaxPool|GlobalMaxPool")),
            ),
            runtime=3,
        )
        for rank, shape in _SHAPES.items()
    ),
    *(
        # Averages of windows of shifted and scaled values, and of sums.
        _family(
            (*inputs("x y", shape), *inputs("s", ()), *inputs("c", (2,) + (1,) * (rank - 2))),
            (
                _pool("AveragePool", rank, 3, 1, 1, "x|y|Add|Sub|Mul|Div|Neg|Concat", counted=counted),
                *unary("GlobalAveragePool", slots=("x|y|Add|Sub|Mul|Div|Neg|Concat",)),
                *binary("Add Sub Mul Div", slots=("x|AveragePool|GlobalAveragePool", "s|c")),
                *binary("Add Sub", slots=("x|y|AveragePool|GlobalAveragePool",) * 2),
                *unary("Neg", slots=("x|AveragePool|GlobalAveragePool",)),
                *concat(1 - rank, slots=("x|AveragePool|GlobalAveragePool", "y|AveragePool|GlobalAveragePool")),
            ),
            runtime=3,
        )
        for rank, shape in _SHAPES.items()
        for counted in (0, 1)
    ),
    *(
        # Windows of windows, windows of one element, and windows of all elements.
        _family(
            inputs("x", shape),
            (
                *(_pool("MaxPool", rank, size, 1, 0, "x|MaxPool") for size in (1, 2, 3)),
                *(_pool("MaxPool", rank, size, 1, size // 2, "x|MaxPool") for size in (3, 5)),
                *(_pool(op, rank, 2, 2, 0, f"x|{op}") for op in ("MaxPool", "AveragePool")),
                _pool("AveragePool", rank, 1, 1, 0, "x"),
                *(_pool(op, rank, 4, 4, 0, "x") for op in ("MaxPool", "AveragePool")),
                *(_pool(op, rank, 8, 1, 0, "x") for op in ("MaxPool", "AveragePool")),
                *unary("GlobalMaxPool", slots=("x|MaxPool",)),
                *unary("GlobalAveragePool", slots=("x|AveragePool",)),
                *reduce("Max Mean", tuple(range(2 - rank, 0)), 1, "x"),
            ),
        )
        for rank, shape in ((3, (1, 2, 8)), (4, (1, 2, 8, 8)))
    ),
    # Windows of rows and of columns.
    _family(
        inputs("x", (1, 2, 8, 8)),
        (
            *(
                Use("MaxPool", {**_UNDILATED, "kernel_shape": size, "pads": pads, "strides": (1, 1)}, (1,))
                for size, pads in (
                    ((1, 3), (0, 0, 0, 0)),
                    ((3, 1), (0, 0, 0, 0)),
                    ((3, 3), (0, 0, 0, 0)),
                    ((1, 3), (0, 1, 0, 1)),
                    ((3, 1), (1, 0, 1, 0)),
                    ((3, 3), (1, 1, 1, 1)),
                )
            ),
        ),
    ),
    # Sequences as images of one row.
    _family(
        inputs("x", (2, 3, 8)),
        (
            _pool("MaxPool", 3, 3, 1, 1, "x"),
            _pool("AveragePool", 3, 2, 2, 0, "x"),
            *axes("Unsqueeze", (-2,), slots=("x|MaxPool|AveragePool",)),
            *axes("Squeeze", (-2,), slots=("MaxPool|AveragePool",)),
            *(
                Use(
                    op,
                    {"dilations": (1, 1), "kernel_shape": size, "pads": pads, "strides": strides},
                    (1,),
                    ("Unsqueeze",),
                )
                for op, size, pads, strides in (
                    ("MaxPool", (1, 3), (0, 1, 0, 1), (1, 1)),
                    ("AveragePool", (1, 2), (0, 0, 0, 0), (1, 2)),
                )
            ),
        ),
        runtime=3,
    ),
)
