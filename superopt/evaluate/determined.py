"""Decide if the definition of an operator is what ONNX Runtime computes, at given values of its operands.

Integers may be computed in floating point, or stop the run with an error (`Operator.integers`), as do indices out of
range. A cast of a real number
to an integer type that lacks the number gives another integer in each runtime. Such a result is not folded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from superopt.evaluate.floats import compute, numpy_dtype
from superopt.evaluate.indices import Array
from superopt.ir.operator import OPERATORS
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.properties import is_conversion

__all__ = ["depends_on_values", "divides", "is_determined"]

_EXACT = 2.0**52  # integers below are exact in double precision; one bit is left for the rounding of the bound itself


def depends_on_values(op: str, operands: Sequence[str], result: str) -> bool:
    """Return True if `is_determined` needs the values of the operands, given the element types."""
    if op in OPERATORS and OPERATORS[op].index_operands:
        return True
    if result in FLOAT_DTYPES or op not in OPERATORS:
        return False
    casts = is_conversion(op) and result != "bool" and not FLOAT_DTYPES.isdisjoint(operands)
    return casts or OPERATORS[op].integers != "modular"


def is_determined(
    op: str, types: Sequence[TensorType], attrs: Mapping[str, Any], xs: Sequence[Array], out: TensorType
) -> bool:
    """Return True if ONNX Runtime computes at `xs` what the definition says, and runs without an error."""
    if not depends_on_values(op, [type.dtype for type in types], out.dtype):
        return True
    if OPERATORS[op].index_operands:
        size = xs[0].shape[attrs["axis"]]
        return bool(((xs[1] >= -size) & (xs[1] < size)).all())
    if is_conversion(op):
        return _in_range(np.trunc(xs[0]), out.dtype)
    if OPERATORS[op].integers == "partial":
        return divides(xs[0], xs[1])
    # Sums and products of max(|x|, 1) bound all numbers on the way.
    doubles = [TensorType("double", type.shape) for type in types]
    sizes = [np.maximum(np.abs(x.astype(np.float64)), 1) for x in xs]
    with np.errstate(over="ignore"):
        bound = compute(op, doubles, attrs, sizes, TensorType("double", out.shape))
    return bool((bound < _EXACT).all()) and _in_range(bound, out.dtype)


def divides(x: Array, y: Array) -> bool:
    """Return True if the integers `x` can be divided by `y`: no division by 0, and not of the least integer by -1."""
    return bool(y.all()) and not (x.dtype.kind == "i" and ((x == np.iinfo(x.dtype).min) & (y == -1)).any())


def _in_range(x: Array, dtype: str) -> bool:
    """Return True if an integer type has all of these whole numbers."""
    ends = np.iinfo(numpy_dtype(dtype))
    # The greatest integer may not be a float; the one after it is a power of 2.
    return bool((np.isfinite(x) & (x >= float(ends.min)) & (x < float(ends.max + 1))).all())
