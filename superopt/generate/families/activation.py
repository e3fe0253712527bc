"""The grammar of activations: by their parts, their symmetries, and what they commute with. Data only."""

from __future__ import annotations

import math
from typing import Any

from superopt.generate.grammar import Family, Use, axes, binary, concat, inputs, slices, splits, transpose, unary

__all__ = ["ACTIVATION"]


def _function(op: str, **attrs: Any) -> Use:
    return Use(op, attrs, (1,))


_LEAKY = {"alpha": 0.125}
_HARD = {"alpha": 0.25, "beta": 0.5}
# Functions that do not decrease: they go through maxima.
_INCREASING = (
    *unary("Relu Sigmoid Tanh Erf Exp Log Sqrt"),
    Use("Softplus", {}, (1,)),
)

ACTIVATION: tuple[Family, ...] = (
    Family(  # by their parts
        "activation",
        (*inputs("a", (3, 4)), *inputs("b", (4,), "b")),
        (
            *unary("Sigmoid Tanh Exp Log Erf Relu Neg"),
            *unary("Softplus Softsign Mish HardSwish"),
            Use("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, (1,)),
            Use("QuickGelu", {"alpha": 1.0}, (1,)),
            Use("Gelu", {"approximate": "none"}, (1,)),
            Use("Gelu", {"approximate": "tanh"}, (1,)),
            Use("FastGelu", {}, (1, 2), ("x!b", "b")),
            Use("BiasGelu", {}, (2,), ("x!b", "b")),
            *binary("Add", slots=("x!b", "b|Ones")),
            *binary("Mul", slots=("a", "x!b")),
        ),
        runtime=3,
        constants=(("Ones", {"shape": ()}),),
        lifts="elementwise",
    ),
)
