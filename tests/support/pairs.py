"""Models of few nodes, and the proof that two of them are equal."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper

from superopt.check.equality import Equality, joined, prove_equal
from superopt.onnx_io import Model, read_simplified
from tests.support.models import model

__all__ = ["graph", "proven"]


def graph(
    *nodes: onnx.NodeProto, shape: tuple[int | str, ...] = ("n", 4), dtype: int = TensorProto.FLOAT, **values: Any
) -> Model:
    """Return a model of x and z, of one type, whose output is y; `values` are its weights."""
    inputs = [helper.make_tensor_value_info(name, dtype, list(shape)) for name in ("x", "z")]
    output = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    output.type.tensor_type.elem_type = dtype
    return read_simplified(model(nodes, inputs, [output], list(values.items())))


def proven(left: Model, right: Model) -> tuple[Equality, Model, Model]:
    """Return what is proven of two models, and the models as joined."""
    left, right = joined(left, right)
    return prove_equal(left, right, seconds=20), left, right
