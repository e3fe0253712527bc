"""ONNX files to terms and back."""

from superopt.onnx_io.build import new_model
from superopt.onnx_io.model import Model, ModelError
from superopt.onnx_io.reader import read_model
from superopt.onnx_io.save import save_model
from superopt.onnx_io.writer import write_model

__all__ = ["Model", "ModelError", "new_model", "read_model", "save_model", "write_model"]
