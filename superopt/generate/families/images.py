"""The grammar of sequences as images of one row: the axis of rows is removed before or after other operators. Data
only.
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, Variable, axes, binary, concat, inputs, unary

__all__ = ["IMAGES"]

_IMAGES = inputs("x y", (2, 3, 1, 5))
_STATISTICS = tuple(Variable(name, (3,), name, True) for name in ("g", "h", "m", "v"))
_SQUEEZE = axes("Squeeze", (-2,), slots=("x|y|Concat",))
_EITHER = ("x|y|Squeeze",)

IMAGES: tuple[Family, ...] = (
    # Functions of one element, sums and normalization.
    Family(
        "images",
        (*_IMAGES, *_STATISTICS),
        (
            *axes("Squeeze", (-2,), slots=("x!Squeeze",)),
            *unary("Relu Sigmoid Tanh HardSwish Erf", slots=_EITHER),
            *(Use("Gelu", {"approximate": kind}, (1,), _EITHER) for kind in ("none", "tanh")),
            *binary("Add Mul", slots=_EITHER),
            Use("BatchNormalization", {"epsilon": 1e-05}, (5,), (*_EITHER, "g", "h", "m", "v")),
        ),
        runtime=3,
        variation="layout",
    ),
    # Channels side by side.
    Family("images", _IMAGES, (*_SQUEEZE, *concat(-2, slots=("Squeeze",)), *concat(-3, slots=("x|y",))), runtime=3,
           elements=60),
)  # fmt: skip
