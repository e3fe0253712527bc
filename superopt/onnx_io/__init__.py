"""Import and export: ONNX files to terms and back."""

from superopt.onnx_io.build import new_model
from superopt.onnx_io.kernels import has_kernel
from superopt.onnx_io.model import Model, ModelError, Unwritable
from superopt.onnx_io.nodes import is_standard, is_writable
from superopt.onnx_io.reader import read_model
from superopt.onnx_io.save import save_model
from superopt.onnx_io.simplify import read_simplified
from superopt.onnx_io.subgraph_reader import Body, BodyKey, read_bodies
from superopt.onnx_io.subgraph_writer import replace_bodies, write_body
from superopt.onnx_io.writer import write_model

__all__ = [
    "Body",
    "Model",
    "ModelError",
    "Unwritable",
    "BodyKey",
    "has_kernel",
    "is_standard",
    "is_writable",
    "new_model",
    "read_bodies",
    "read_model",
    "read_simplified",
    "replace_bodies",
    "save_model",
    "write_body",
    "write_model",
]
