"""Scalar functions, element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ir.operators.spec import IllTyped, Need, elementwise, floats, need_equal, numbers, op

__all__ = ["SPECS"]

_TRUTH_OR_TEXT = frozenset({"bool", "string"})


def _power(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """Of the base, which is real; the exponent may have another type."""
    if dtypes[1] in _TRUTH_OR_TEXT:
        raise IllTyped(f"exponent of type {dtypes[1]}")
    return floats(dtypes[:1], attrs, default)


def _prelu(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """The slope broadcasts to x, and x to nothing."""
    x, slope = shapes
    if len(slope) > len(x):
        raise IllTyped("PRelu's slope has more axes than its input")
    for own, size in zip(slope, x[len(x) - len(slope) :], strict=True):
        if own != 1:
            need_equal(need, own, size)
    return (tuple(x),)


_REAL_FUNCTIONS = (
    "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "HardSwish", "Softplus", "Mish", "Softsign", "Floor", "Ceil", "Round"
)  # fmt: skip
# ONNX's defaults are float32 numbers, which are written here in full: 0.01, 0.2, and those of Selu.
_PARAMETRIC = {
    "LeakyRelu": "alpha=0.009999999776482582",
    "HardSigmoid": "alpha=0.20000000298023224 beta=0.5",
    "Gelu": "approximate=none",
    "Elu": "alpha=1.0",
    "Selu": "alpha=1.6732631921768188 gamma=1.0507010221481323",
    "Celu": "alpha=1.0",
    "ThresholdedRelu": "alpha=1.0",
}

SPECS = (
    op("Div", 2, 2, shape=elementwise, dtype=numbers, elementwise=True),
    op("Pow", 2, 2, shape=elementwise, dtype=_power, elementwise=True),
    op("Min", 1, None, shape=elementwise, dtype=numbers, commutative=True, elementwise=True),
    op("Max", 1, None, shape=elementwise, dtype=numbers, commutative=True, elementwise=True),
    op("PRelu", 2, 2, shape=_prelu, dtype=numbers, elementwise=True),
    op("Abs", 1, 1, shape=elementwise, dtype=numbers, elementwise=True),
    op("Sign", 1, 1, shape=elementwise, dtype=numbers, elementwise=True),
    # An infinite bound is none.
    op("Clip", 1, 1, "bound_high=inf bound_low=-inf", shape=elementwise, dtype=numbers, elementwise=True),
    *(op(name, 1, 1, shape=elementwise, dtype=floats, elementwise=True) for name in _REAL_FUNCTIONS),
    *(op(name, 1, 1, attrs, shape=elementwise, dtype=floats, elementwise=True) for name, attrs in _PARAMETRIC.items()),
)
