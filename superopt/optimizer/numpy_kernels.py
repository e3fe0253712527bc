"""NumPy kernels of frequent operators that have no definition, and no double in ONNX Runtime, for `float64`.

A kernel gets the inputs in their own types (None for an absent one) and the attributes that the node states. It returns
None for a form that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

__all__ = ["NUMPY_KERNELS"]

_Kernel: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any]], Any]


def _gather(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return the elements of a table, which is not widened as a whole."""
    return np.take(inputs[0], inputs[1], attrs.get("axis", 0))


def _quantize(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return round(x / scale) + zero point, clipped to the range of the zero point's type (by default uint8)."""
    x, scale, zero = _quantization(inputs, attrs)
    dtype = np.dtype(np.uint8) if zero is None else zero.dtype
    if scale is None or dtype.kind not in "iu" or attrs.keys() & {"block_size", "output_dtype", "precision"}:
        return None
    found = np.rint(x.astype(np.float64) / scale) + (0 if zero is None else zero.astype(np.float64))
    limits = np.iinfo(dtype)
    return np.clip(found, limits.min, limits.max).astype(dtype)


def _dequantize(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return (x - zero point) * scale."""
    x, scale, zero = _quantization(inputs, attrs)
    if scale is None or x.dtype.kind not in "iu" or attrs.keys() & {"block_size", "output_dtype"}:
        return None
    return (x.astype(np.float64) - (0 if zero is None else zero.astype(np.float64))) * scale


def _quantization(inputs: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return x, and scale and zero point so that they broadcast; None as scale if they are given for blocks."""
    x, scale, zero = (*inputs, None)[:3]
    if scale.ndim > 1:
        return x, None, None
    shape = [1] * x.ndim
    if scale.ndim == 1 and scale.size > 1:
        shape[attrs.get("axis", 1)] = scale.size
    elif scale.ndim == 1:
        shape = [1] * min(x.ndim, 1)
    else:
        shape = []
    return x, scale.astype(np.float64).reshape(shape), None if zero is None else zero.reshape(shape)


NUMPY_KERNELS: Mapping[str, _Kernel] = {
    "Gather": _gather,
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
}
