"""Models whose nodes call functions of the file."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

__all__ = ["DOUBLING", "calling", "function", "one_input_model"]


def one_input_model(
    nodes: list[NodeProto], *, functions: list[FunctionProto] | None = None, opset: int = 17
) -> ModelProto:
    """A model with input x, a weight w, and output y, which may call functions of the domain f."""
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    graph = helper.make_graph(
        nodes,
        "hostile",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [onnx.ValueInfoProto(name="y")],
        [weight],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions or [])


def function(name: str, *calls: str) -> FunctionProto:
    """A function that calls others, one after the other; Neg if there are none."""
    names = [f"t{k}" for k in range(len(calls) + 1)]
    nodes = [helper.make_node(call, [a], [b], domain="f") for call, a, b in zip(calls, names, names[1:], strict=False)]
    nodes = nodes or [helper.make_node("Neg", ["t0"], ["t1"])]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, ["t0"], [nodes[-1].output[0]], nodes, imports)


def calling(*functions: FunctionProto) -> ModelProto:
    """A model that calls the first of its functions."""
    nodes = [helper.make_node(functions[0].name, ["x"], ["y"], domain="f")]
    return one_input_model(nodes, functions=list(functions))


# Functions that stand for 2^40 nodes.
DOUBLING = [function(f"F{k}", f"F{k + 1}", f"F{k + 1}") for k in range(40)] + [function("F40")]
