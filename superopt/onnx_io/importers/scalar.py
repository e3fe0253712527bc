"""Scalar functions, element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from superopt.evaluate import numpy_dtype
from superopt.ir.term import Attr
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io.importers.view import ANY, NodeView, Reader, Row, Unreadable, plain

__all__ = ["READERS"]

_NUMBERS = FLOAT_DTYPES | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def _reals(**defaults: float) -> Reader:
    return lambda view: {name: view.real(name, default) for name, default in defaults.items()}


def _celu(view: NodeView) -> dict[str, Attr] | None:
    # Below 0 the formula and the function body of the specification differ.
    alpha = view.real("alpha", 1.0)
    return {"alpha": alpha} if alpha > 0 else None


def _gelu(view: NodeView) -> dict[str, Attr] | None:
    approximate = view.text("approximate", "none")
    return {"approximate": approximate} if approximate in ("none", "tanh") else None


def _clip(view: NodeView) -> dict[str, Attr] | None:
    """ONNX's default bounds are the ends of the type's range, so these are none. An infinite one is not read: infinite
    elements would tell it from a default."""
    x = view.inputs[0]
    # Before opset 11 the bounds are float32 for any type.
    if x is None or x.type is None or x.type.dtype not in (_NUMBERS if view.opset >= 11 else {"float"}):
        return None
    dtype = numpy_dtype(x.type.dtype)
    ends: Any = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    low = view.real("min", float(ends.min)) if view.opset < 11 else _bound(view, 1)
    high = view.real("max", float(ends.max)) if view.opset < 11 else _bound(view, 2)
    if view.opset < 11 and low is not None and high is not None and low > high:
        return None  # which decides is said from opset 11 on
    return {
        "bound_low": -math.inf if low is None or low == ends.min else _exact(low),
        "bound_high": math.inf if high is None or high == ends.max else _exact(high),
    }


def _bound(view: NodeView, index: int) -> int | float | None:
    """The value of a constant input, None where it is absent."""
    term = view.inputs[index] if index < len(view.inputs) else None
    if term is None:
        return None
    array = view.value(term)
    if array is None or array.size != 1 or array.ndim > 1:
        raise Unreadable("bound")
    (value,) = array.reshape(-1)
    return int(value) if array.dtype.kind in "iu" else float(value)


def _exact(bound: int | float) -> float:
    """A float64 that is the bound and nothing else: no NaN, no -0.0."""
    value = float(bound)
    if not math.isfinite(value) or value != bound or (value == 0 and math.copysign(1, value) < 0):
        raise Unreadable("bound")
    return value


_PLAIN = (
    "Sqrt", "Reciprocal", "Exp", "Log", "Erf", "Abs", "HardSwish", "Softplus", "Mish", "Softsign", "Sign", "Floor",
    "Ceil", "Round"
)  # fmt: skip
READERS: Mapping[str, Row] = {
    **dict.fromkeys(("Div", "Pow", "PRelu"), Row(2, 2, plain)),
    **dict.fromkeys(("Min", "Max"), Row(1, ANY, plain)),
    **dict.fromkeys(_PLAIN, Row(1, 1, plain)),
    "Clip": Row(1, 1, _clip, parameters=True),
    "LeakyRelu": Row(1, 1, _reals(alpha=0.01)),
    "HardSigmoid": Row(1, 1, _reals(alpha=0.2, beta=0.5)),
    "Gelu": Row(1, 1, _gelu),
    "Elu": Row(1, 1, _reals(alpha=1.0)),
    "Selu": Row(1, 1, _reals(alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)),
    "Celu": Row(1, 1, _celu),
    "ThresholdedRelu": Row(1, 1, _reals(alpha=1.0)),
}
