"""The grammar of sequences as images of one row: the axis of rows is removed before or after other operators. Data
only.
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, Variable, axes, binary, inputs, unary

__all__ = ["IMAGES"]

_UNARY = "Relu Sigmoid"
_STATISTICS = tuple(Variable(name, (3,), name, True) for name in ("g", "h", "m", "v"))
_NORM = {"epsilon": 1e-05}

IMAGES: tuple[Family, ...] = (
    Family(
        "images",
        (*inputs("x y", (2, 3, 1, 5)), *_STATISTICS),
        (
            *axes("Squeeze", (-2,), slots=("x!Squeeze",)),
            *unary(_UNARY, slots=("x|y|Squeeze",)),
            *binary("Add Mul", slots=("x|y|Squeeze",)),
            Use("BatchNormalization", _NORM, (5,), ("x|y|Squeeze", "g", "h", "m", "v")),
        ),
        runtime=3,
        variation="layout",
    ),
)
