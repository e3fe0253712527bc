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


def branches(channels: int = 32, size: int = 28, blocks: int = 2) -> onnx.ModelProto:
    """Blocks of Relu(BN(Conv3x3(x)) + BN(Conv1x1(x)) + BN(x)), as RepVGG is trained."""
    nodes: list[onnx.NodeProto] = []
    values: list[tuple[str, np.ndarray]] = []
    rng = np.random.default_rng(7)

    def normalised(x: str, name: str) -> str:
        for part, drawn in (
            ("scale", rng.uniform(0.3, 0.8, channels)),
            ("bias", rng.normal(0, 0.1, channels)),
            ("mean", rng.normal(0, 0.1, channels)),
            ("var", rng.uniform(0.5, 1.5, channels)),
        ):
            values.append((f"{name}.{part}", drawn.astype(np.float32)))
        parts = [f"{name}.{part}" for part in ("scale", "bias", "mean", "var")]
        nodes.append(helper.make_node("BatchNormalization", [x, *parts], [f"{name}.bn"]))
        return f"{name}.bn"

    x = "x"
    for block in range(blocks):
        sums = [normalised(x, f"{block}.id")]
        for kernel in (1, 3):
            name = f"{block}.{kernel}"
            drawn = rng.standard_normal((channels, channels, kernel, kernel)) / (kernel * channels**0.5)
            values.append((f"{name}.w", drawn.astype(np.float32)))
            pads = [kernel // 2] * 4
            nodes.append(helper.make_node("Conv", [x, f"{name}.w"], [f"{name}.conv"], pads=pads))
            sums.append(normalised(f"{name}.conv", name))
        nodes.append(helper.make_node("Add", [sums[0], sums[1]], [f"{block}.first"]))
        nodes.append(helper.make_node("Add", [f"{block}.first", sums[2]], [f"{block}.sum"]))
        x = "y" if block == blocks - 1 else f"{block}.out"
        nodes.append(helper.make_node("Relu", [f"{block}.sum"], [x]))
    shape = (1, channels, size, size)
    return model(nodes, [floats("x", *shape)], [floats("y", *shape)], values)


def endless() -> onnx.ModelProto:
    """A Loop of 2^62 steps."""
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "one"], ["v2"]), helper.make_node("Identity", ["c"], ["c2"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            floats("v"),
        ],
        [helper.make_tensor_value_info("c2", TensorProto.BOOL, []), floats("v2")],
        [numpy_helper.from_array(np.array(1, np.float32), "one")],
    )
    loop = helper.make_node("Loop", ["n", "go", "x"], ["y"], body=body)
    values = [("n", np.array(2**62, np.int64)), ("go", np.array(True))]
    return model([loop], [floats("x")], [floats("y")], values)
