"""Models in half precision, by the converter that ONNX Runtime brings along."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

__all__ = ["CONVERTER", "converter", "is_float16", "is_present"]

CONVERTER = "onnxruntime.transformers.float16"


def is_present() -> bool:
    """Return True if the converter is installed."""
    try:
        return importlib.util.find_spec(CONVERTER) is not None
    except ModuleNotFoundError:
        return False


def is_float16(path: Path) -> bool:
    """Return True if more elements of weights are in half than in single precision; False for what is no model."""
    try:
        weights = onnx.load(path, load_external_data=False).graph.initializer
    except DecodeError:
        return False
    elements = {onnx.TensorProto.FLOAT: 0, onnx.TensorProto.FLOAT16: 0}
    for tensor in weights:
        if tensor.data_type in elements:
            elements[tensor.data_type] += math.prod(tensor.dims)
    return elements[onnx.TensorProto.FLOAT16] > elements[onnx.TensorProto.FLOAT]


def converter() -> Callable[[Path, Path], None]:
    """Return the function that converts a file to another one, for `superopt.bench.processes.call`."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    def convert(source: Path, out: Path) -> None:
        onnx.save(convert_float_to_float16(onnx.load(source)), out)

    return convert
