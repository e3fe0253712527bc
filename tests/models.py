"""Small models that tests share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Enough to merge `x W + x A B` into one MatMul. Rules of tests are written by hand, those of the program never.
LORA_RULES = """\
MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_] b[_,_] c[_,_]
Add(MatMul(a, b), MatMul(a, c)) = MatMul(a, Add(b, c)) @ a[_,_] b[_,_] c[_,_]
"""


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[tuple[str, np.ndarray]] = (),
    opset: int = 17,
) -> onnx.ModelProto:
    """A model, not checked."""
    initializers = [numpy_helper.from_array(values, name) for name, values in weights]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def floats(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    """A float input or output."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal weights that keep the magnitude of what they multiply."""
    return (np.random.default_rng(seed).standard_normal(shape) / shape[0] ** 0.5).astype(np.float32)


def lora(batch: int | str = 16, size: int = 64, rank: int = 16) -> onnx.ModelProto:
    """y = Relu(x W + (x A) B)."""
    return model(
        [
            helper.make_node("MatMul", ["x", "W"], ["base"]),
            helper.make_node("MatMul", ["x", "A"], ["down"]),
            helper.make_node("MatMul", ["down", "B"], ["up"]),
            helper.make_node("Add", ["base", "up"], ["sum"]),
            helper.make_node("Relu", ["sum"], ["y"]),
        ],
        [floats("x", batch, size)],
        [floats("y", batch, size)],
        [("W", weights(size, size)), ("A", weights(size, rank, seed=1)), ("B", weights(rank, size, seed=2))],
    )
