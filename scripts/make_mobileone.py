#!/usr/bin/env python3
"""Build MobileOne-S0 in its training form as an ONNX file, a real architecture whose parallel branches can be merged.

The model has 43 blocks of parallel Conv + BatchNormalization branches, for images of 224 x 224, in opset 17. Its about
5.3 million weights are random, from a seed, with the variances of a usual initialisation.

Vasu, Gabriel, Zhu, Tuzel, Ranjan: "MobileOne: An Improved One Millisecond Mobile Backbone", CVPR 2023.

    make_mobileone.py mobileone.onnx
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTHS = (48, 128, 256, 1024)  # S0: 64, 128, 256, 512 times 0.75, 1, 1, 2
BLOCKS = (2, 8, 10, 1)
BRANCHES = 4  # parallel Conv + BatchNormalization of the block's kernel size, S0
EPSILON = 1e-5


class ModelBuilder:
    """Collects nodes and weights; every method returns the name of the tensor that it makes."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, values: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def node(self, op: str, inputs: list[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [f"{name}.out"], name=name, **attributes))
        return f"{name}.out"

    def batch_norm(self, x: str, channels: int, mean: float, variance: float, share: int, name: str) -> str:
        """Add a BatchNormalization to a variance of about 1/share, with statistics scattered around the given ones."""
        rng = self.rng
        inputs = [
            x,
            self.weight(f"{name}.scale", rng.uniform(0.5, 1.5, channels) / math.sqrt(share)),
            self.weight(f"{name}.bias", rng.normal(0.0, 0.1, channels)),
            self.weight(f"{name}.mean", mean + rng.normal(0.0, 0.1, channels) * math.sqrt(variance)),
            self.weight(f"{name}.var", variance * rng.uniform(0.7, 1.4, channels)),
        ]
        return self.node("BatchNormalization", inputs, name, epsilon=EPSILON)

    def conv(self, x: str, into: int, out: int, kernel: int, stride: int, group: int, name: str) -> str:
        shape = (out, into // group, kernel, kernel)
        deviation = math.sqrt(2 / math.prod(shape[1:]))
        pad = kernel // 2
        return self.node(
            "Conv",
            [x, self.weight(f"{name}.weight", self.rng.normal(0.0, deviation, shape))],
            name,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad, pad, pad, pad],
            group=group,
        )

    def block(self, x: str, into: int, out: int, kernel: int, stride: int, group: int, branches: int, name: str) -> str:
        """Add the Relu of the sum of all branches.

        The branches are an identity (if shapes allow), a 1 x 1 Conv (beside larger kernels), and Convs with the block's
        own kernel.
        """
        first = name == "stage0"
        # Mean and mean square of the input: images are normalised, later inputs are Relu of about a unit normal.
        mean, square = (0.0, 1.0) if first else (1 / math.sqrt(2 * math.pi), 0.5)
        identity, point = into == out and stride == 1, kernel > 1
        share = branches + identity + point
        parts: list[str] = []
        if identity:
            # Variance 1 instead of the input's: channels far from the mean would otherwise grow from block to block.
            parts.append(self.batch_norm(x, into, mean, 1.0, share, f"{name}.identity"))
        if point:
            y = self.conv(x, into, out, 1, stride, group, f"{name}.scale.conv")
            parts.append(self.batch_norm(y, out, 0.0, 2 * square, share, f"{name}.scale.norm"))
        for i in range(branches):
            y = self.conv(x, into, out, kernel, stride, group, f"{name}.{i}.conv")
            parts.append(self.batch_norm(y, out, 0.0, 2 * square, share, f"{name}.{i}.norm"))
        total = parts[0]
        for i, part in enumerate(parts[1:]):
            total = self.node("Add", [total, part], f"{name}.add{i}")
        return self.node("Relu", [total], f"{name}.relu")


def mobileone_s0(seed: int = 0, classes: int = 1000) -> onnx.ModelProto:
    """Return the model, with input `image` float[1, 3, 224, 224] and output `scores` float[1, classes]."""
    b = ModelBuilder(seed)
    x = b.block("image", 3, WIDTHS[0], 3, 2, 1, 1, "stage0")
    channels = WIDTHS[0]
    for stage, (width, blocks) in enumerate(zip(WIDTHS, BLOCKS, strict=True), 1):
        for i in range(blocks):
            name = f"stage{stage}.{i}"
            x = b.block(x, channels, channels, 3, 2 if i == 0 else 1, channels, BRANCHES, f"{name}.depthwise")
            x = b.block(x, channels, width, 1, 1, 1, BRANCHES, f"{name}.pointwise")
            channels = width
    x = b.node("GlobalAveragePool", [x], "pool")
    x = b.node("Flatten", [x], "flatten")
    bound = 1 / math.sqrt(channels)
    weight = b.weight("classifier.weight", b.rng.uniform(-bound, bound, (classes, channels)))
    bias = b.weight("classifier.bias", b.rng.uniform(-bound, bound, classes))
    b.nodes.append(helper.make_node("Gemm", [x, weight, bias], ["scores"], name="classifier", transB=1))
    graph = helper.make_graph(
        b.nodes,
        "mobileone_s0",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, classes])],
        b.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    onnx.save(mobileone_s0(arguments.seed), arguments.out)
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
