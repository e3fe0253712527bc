"""Truth values, comparisons, and conversions between element types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import TensorProto, helper

from superopt.evaluate.standard import Array, Attrs, Compute
from superopt.ir.types import FLOAT_DTYPES

__all__ = ["COMPUTE"]


def _cast(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """Floats are rounded to the new type and stay float64."""
    to = attrs["to"]
    made = inputs[0].astype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(to.upper())))
    return [made.astype(np.float64) if to in FLOAT_DTYPES else made]


def _binary(function: Callable[[Array, Array], Array]) -> Compute:
    return lambda inputs, attrs: [function(*inputs)]


COMPUTE: Mapping[str, Compute] = {
    "Where": lambda inputs, attrs: [np.where(*inputs)],
    "Not": lambda inputs, attrs: [np.logical_not(inputs[0])],
    "And": _binary(np.logical_and),
    "Or": _binary(np.logical_or),
    "Xor": _binary(np.logical_xor),
    "Equal": _binary(np.equal),
    "Less": _binary(np.less),
    "LessOrEqual": _binary(np.less_equal),
    "Greater": _binary(np.greater),
    "GreaterOrEqual": _binary(np.greater_equal),
    "Cast": _cast,
}
