"""Models in half precision, by the converter that ONNX Runtime brings along."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import onnx

__all__ = ["CONVERTER", "converter", "is_float16", "is_present"]

CONVERTER = "onnxruntime.transformers.float16"


def is_present() -> bool:
    """Return True if the converter is installed."""
    try:
        return importlib.util.find_spec(CONVERTER) is not None
    except ModuleNotFoundError:
        return False


def is_float16(path: Path) -> bool:
    """Return True if the model has weights in half precision already, and none in single precision that is larger."""
    elements = {onnx.TensorProto.FLOAT: 0, onnx.TensorProto.FLOAT16: 0}
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        if tensor.data_type in elements:
            count = 1
            for size in tensor.dims:
                count *= size
            elements[tensor.data_type] += count
    return elements[onnx.TensorProto.FLOAT16] > elements[onnx.TensorProto.FLOAT]


def converter() -> Callable[[Path, Path], None]:
    """Return the function that converts a file to another one, for `superopt.bench.processes.call`."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    def convert(source: Path, out: Path) -> None:
        onnx.save(convert_float_to_float16(onnx.load(source)), out)

    return convert
