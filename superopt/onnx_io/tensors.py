"""Conversion between tensor protobufs and arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from superopt.evaluate import dtype_name, numpy_dtype
from superopt.onnx_io.external_data import MappedArray, is_external, map_tensor, refer
from superopt.onnx_io.model import Array, ModelError

__all__ = ["constant_value", "fill_proto", "from_proto"]


def from_proto(tensor: TensorProto, label: str) -> tuple[Array, str]:
    """Return the array (of bytes objects for text) and the element type. Raises ModelError for a malformed tensor."""
    try:
        dtype = dtype_name(tensor.data_type)
        if min(tensor.dims, default=0) < 0:
            raise ValueError(f"it has a size of {min(tensor.dims)}")  # NumPy would infer this size
        if tensor.data_type == TensorProto.STRING:
            return _texts(tensor.string_data).reshape(tuple(tensor.dims)), dtype
        if is_external(tensor):
            if (mapped := map_tensor(tensor)) is not None:
                return mapped, dtype
            raise ModelError(
                f"{label}: tensor {tensor.name!r} is in an external file that was not loaded; give the path"
            )
        return numpy_helper.to_array(tensor), dtype
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{label}: tensor {tensor.name!r} is malformed: {error}") from None


def _texts(values: Iterable[bytes]) -> Array:
    return np.fromiter(values, dtype=object)


def fill_proto(tensor: TensorProto, array: Array, dtype: str, name: str) -> None:
    """Make the empty `tensor` the array, called `name`; a mapped array becomes a reference to its file.

    A message that is in its place in a model already needs no further copy.
    """
    if dtype == "string":
        tensor.CopyFrom(helper.make_tensor(name, TensorProto.STRING, array.shape, list(array.reshape(-1))))
    elif isinstance(array, MappedArray) and array.extent is not None:
        tensor.MergeFrom(TensorProto(name=name, data_type=TensorProto.DataType.Value(dtype.upper()), dims=array.shape))
        refer(tensor, array.extent)
    elif sys.byteorder != "little" or array.dtype.isbuiltin != 1:
        tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
    else:
        data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        tensor.MergeFrom(TensorProto(name=name, data_type=data_type, dims=array.shape))
        tensor.raw_data = array.tobytes()


def constant_value(node: onnx.NodeProto, label: str) -> tuple[Array, str] | None:
    """Return the value of a Constant node, or None if it is sparse."""
    if len(node.attribute) != 1:
        raise ModelError(f"{label}: Constant node {node.name!r} has {len(node.attribute)} values")
    attribute = node.attribute[0]
    value: Any
    if attribute.type == AttributeProto.TENSOR:
        return from_proto(attribute.t, label)
    if attribute.type in (AttributeProto.INT, AttributeProto.INTS):
        value, dtype = (attribute.i if attribute.type == AttributeProto.INT else list(attribute.ints)), "int64"
    elif attribute.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
        value, dtype = (attribute.f if attribute.type == AttributeProto.FLOAT else list(attribute.floats)), "float"
    elif attribute.type == AttributeProto.STRING:
        return _texts([attribute.s]).reshape(()), "string"
    elif attribute.type == AttributeProto.STRINGS:
        return _texts(attribute.strings), "string"
    else:
        return None
    return np.array(value, dtype=numpy_dtype(dtype)), dtype
