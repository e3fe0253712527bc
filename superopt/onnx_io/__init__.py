"""ONNX files to terms and back."""

from superopt.onnx_io.build import new_model
from superopt.onnx_io.model import Model, ModelError
from superopt.onnx_io.reader import read_model
from superopt.onnx_io.save import save_model
from superopt.onnx_io.schemas import has_operator
from superopt.onnx_io.simplify import read_reduced
from superopt.onnx_io.subgraph_io import Body, Place, bodies, put_back, write_body
from superopt.onnx_io.writer import write_model

__all__ = [
    "Body",
    "Model",
    "ModelError",
    "Place",
    "bodies",
    "has_operator",
    "new_model",
    "put_back",
    "read_model",
    "read_reduced",
    "save_model",
    "write_body",
    "write_model",
]
