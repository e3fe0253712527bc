#!/usr/bin/env python3
"""Build models of the benchmark as ONNX files: real architectures at their usual sizes, random weights from a seed.

    make_models.py FOLDER [NAME ...]        # all, or the named ones
    superopt bench FOLDER/*.onnx --svg bench.svg

    lora_mlp      four layers Relu(W x + b + 2 B A x) of width 1024, rank 16, batch 8
    lstm_2x20     an LSTM of 2 layers and width 256, unrolled over 20 steps, with separate products for each gate
    lstm_10x100   an LSTM like lstm_2x20 with 10 layers and 100 steps: 25,000 operators
    mmoe          multi-gate mixture of 8 experts for 2 tasks
    nasrnn        5 steps of the recurrent cell found by neural architecture search, width 512
    squeezenet    SqueezeNet 1.1, 224 x 224 images
    resnet50      ResNet-50 in training form: BatchNormalization is not folded into Conv
    resnext50     ResNeXt-50 (32 x 4d) in training form
    mobileone     MobileOne-S0 in training form (make_mobileone.py)

Hu et al.: "LoRA", ICLR 2022. Hochreiter & Schmidhuber: "Long Short-Term Memory", 1997. Ma et al.: "Modeling Task
Relationships in Multi-task Learning with Multi-gate Mixture-of-Experts", KDD 2018. Zoph & Le: "Neural Architecture
Search with Reinforcement Learning", ICLR 2017. Iandola et al.: "SqueezeNet", 2016. He et al.: "Deep Residual Learning
for Image Recognition", CVPR 2016. Xie et al.: "Aggregated Residual Transformations for Deep Neural Networks", 2017.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from make_mobileone import ModelBuilder, mobileone_s0
from onnx import TensorProto, helper, numpy_helper

IMAGE = (1, 3, 224, 224)


class Layers(ModelBuilder):
    """A `ModelBuilder` with the layers that these models share."""

    def integers(self, name: str, values: int | list[int]) -> str:
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def random(self, name: str, *shape: int, fan: int) -> str:
        """Add random weights that preserve the variance of values in sums of `fan` products."""
        return self.weight(name, self.rng.normal(0.0, 1 / math.sqrt(fan), shape))

    def dense(self, x: str, into: int, out: int, name: str) -> str:
        weight = self.random(f"{name}.weight", out, into, fan=into)
        return self.node("Gemm", [x, weight, self.random(f"{name}.bias", out, fan=into)], name, transB=1)

    def biased_conv(self, x: str, into: int, out: int, kernel: int, name: str, stride: int = 1, pad: int = 0) -> str:
        fan = into * kernel**2
        weight = self.random(f"{name}.weight", out, into, kernel, kernel, fan=fan // 2)
        inputs = [x, weight, self.random(f"{name}.bias", out, fan=fan)]
        x = self.node("Conv", inputs, name, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)
        return self.node("Relu", [x], f"{name}.relu")

    def normed_conv(
        self, x: str, into: int, out: int, kernel: int, name: str, stride: int = 1, group: int = 1, share: int = 1
    ) -> str:
        x = self.conv(x, into, out, kernel, stride, group, f"{name}.conv")
        return self.batch_norm(x, out, 0.0, 1.0, share, f"{name}.norm")

    def max_pool(self, x: str, name: str, **attributes: object) -> str:
        return self.node("MaxPool", [x], name, kernel_shape=[3, 3], strides=[2, 2], **attributes)

    def finish(self, name: str, inputs: dict[str, Sequence[int]], outputs: dict[str, Sequence[int]]) -> onnx.ModelProto:
        """Return the checked model with inputs and outputs of these shapes."""
        given, made = (
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in side.items()]
            for side in (inputs, outputs)
        )
        graph = helper.make_graph(self.nodes, name, given, made, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


def lora_mlp(seed: int, batch: int = 8, width: int = 1024, rank: int = 16) -> onnx.ModelProto:
    b, x = Layers(seed), "x"
    two = b.weight("alpha", np.array(2.0))
    for i in range(4):
        base = b.dense(x, width, width, f"{i}.base")
        down = b.node("MatMul", [x, b.random(f"{i}.a", width, rank, fan=width)], f"{i}.down")
        up = b.node("MatMul", [down, b.random(f"{i}.b", rank, width, fan=10 * rank)], f"{i}.up")
        x = b.node("Add", [base, b.node("Mul", [up, two], f"{i}.scaled")], f"{i}.sum")
        x = b.node("Relu", [x], f"{i}.relu")
    return b.finish("lora_mlp", {"x": (batch, width)}, {x: (batch, width)})


def lstm(seed: int, layers: int, steps: int, width: int = 256) -> onnx.ModelProto:
    """Return an unrolled LSTM with four gates i f g o in each cell.

    c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').
    """
    b = Layers(seed)
    zero = b.weight("zero", np.zeros((1, width)))
    state = [(zero, zero)] * layers
    weights = [
        [
            (*(b.random(f"{part}.{i}.{gate}", width, width, fan=2 * width) for part in "wu"),
             b.random(f"b.{i}.{gate}", width, fan=width))
            for gate in "ifgo"
        ]
        for i in range(layers)
    ]  # fmt: skip
    x = "x"
    for step in range(steps):
        x = b.node("Gather", ["x", b.integers(f"step{step}", step)], f"{step}.gather", axis=0)
        for i in range(layers):
            name, (h, c) = f"{step}.{i}", state[i]
            gates: list[str] = []
            for gate, (w, u, bias) in zip("ifgo", weights[i], strict=True):
                at = f"{name}.{gate}"
                total = [b.node("MatMul", [x, w], f"{at}.x"), b.node("MatMul", [h, u], f"{at}.h")]
                total = [b.node("Add", total, f"{at}.sum"), bias]
                kind = "Tanh" if gate == "g" else "Sigmoid"
                gates.append(b.node(kind, [b.node("Add", total, f"{at}.bias")], f"{at}.gate"))
            kept = b.node("Mul", [gates[1], c], f"{name}.kept")
            c = b.node("Add", [kept, b.node("Mul", [gates[0], gates[2]], f"{name}.new")], f"{name}.c")
            x = b.node("Mul", [gates[3], b.node("Tanh", [c], f"{name}.tanh")], f"{name}.h")
            state[i] = (x, c)
    return b.finish(f"lstm_{layers}x{steps}", {"x": (steps, 1, width)}, {x: (1, width)})


def mmoe(seed: int, batch: int = 1, experts: int = 8, tasks: int = 2) -> onnx.ModelProto:
    b = Layers(seed)
    one, last = b.integers("one", [1]), b.integers("last", [2])
    made: list[str] = []
    for i in range(experts):
        x = b.node("Relu", [b.dense("x", 512, 256, f"expert{i}.0")], f"expert{i}.relu0")
        x = b.node("Relu", [b.dense(x, 256, 128, f"expert{i}.1")], f"expert{i}.relu1")
        made.append(b.node("Unsqueeze", [x, one], f"expert{i}.row"))
    rows = b.node("Concat", made, "experts", axis=1)
    outputs: list[str] = []
    for i in range(tasks):
        gate = b.node("Softmax", [b.dense("x", 512, experts, f"gate{i}")], f"gate{i}.softmax", axis=-1)
        mixed = b.node("Mul", [rows, b.node("Unsqueeze", [gate, last], f"gate{i}.column")], f"gate{i}.mul")
        x = b.node("ReduceSum", [mixed, one], f"gate{i}.mix", keepdims=0)
        x = b.node("Relu", [b.dense(x, 128, 64, f"tower{i}.0")], f"tower{i}.relu")
        outputs.append(b.node("Sigmoid", [b.dense(x, 64, 1, f"tower{i}.1")], f"tower{i}.sigmoid"))
    return b.finish("mmoe", {"x": (batch, 512)}, dict.fromkeys(outputs, (batch, 1)))


def nasrnn(seed: int, steps: int = 5, width: int = 512) -> onnx.ModelProto:
    """Return an unrolled NAS cell: eight sums x W + h U, combined in pairs by a fixed tree."""
    b = Layers(seed)
    h = b.weight("h0", np.zeros((1, width)))
    for step in range(steps):

        def apply(kind: str, *inputs: str, at: str = f"{step}") -> str:
            return b.node(kind, list(inputs), f"{at}.{len(b.nodes)}")

        g = [
            apply("Add", *(apply("MatMul", value, b.random(f"{step}.{part}{i}", width, width, fan=2 * width))
                           for part, value in (("w", f"x{step}"), ("u", h))))
            for i in range(8)
        ]  # fmt: skip
        first = apply("Add", apply("Relu", g[0]), apply("Sigmoid", g[3]))
        second = apply("Add", apply("Sigmoid", g[1]), apply("Tanh", g[2]))
        third = apply("Mul", apply("Sigmoid", g[4]), apply("Tanh", g[5]))
        fourth = apply("Mul", apply("Sigmoid", g[6]), apply("Relu", g[7]))
        left = apply("Tanh", apply("Add", apply("Sigmoid", second), apply("Tanh", third)))
        right = apply("Tanh", apply("Mul", apply("Tanh", first), apply("Tanh", fourth)))
        h = apply("Tanh", apply("Mul", left, right))
    return b.finish("nasrnn", {f"x{step}": (1, width) for step in range(steps)}, {h: (1, width)})


def squeezenet(seed: int, classes: int = 1000) -> onnx.ModelProto:
    b = Layers(seed)
    x = b.max_pool(b.biased_conv("x", 3, 64, 3, "stem", stride=2), "pool0", ceil_mode=1)
    channels = 64
    for i, (squeeze, expand) in enumerate([(16, 64)] * 2 + [(32, 128)] * 2 + [(48, 192)] * 2 + [(64, 256)] * 2):
        if i in (2, 4):
            x = b.max_pool(x, f"pool{i // 2}", ceil_mode=1)
        x = b.biased_conv(x, channels, squeeze, 1, f"fire{i}.squeeze")
        parts = [b.biased_conv(x, squeeze, expand, k, f"fire{i}.expand{k}", pad=k // 2) for k in (1, 3)]
        x, channels = b.node("Concat", parts, f"fire{i}", axis=1), 2 * expand
    x = b.node("GlobalAveragePool", [b.biased_conv(x, channels, classes, 1, "classifier")], "average")
    x = b.node("Flatten", [x], "scores")
    return b.finish("squeezenet", {"x": IMAGE}, {x: (1, classes)})


def resnet(seed: int, group: int, width: int, classes: int = 1000) -> onnx.ModelProto:
    """Return a ResNet of bottleneck blocks 1x1, 3x3 (in `group` groups), 1x1.

    The first stage has `width` inner channels.
    """
    b = Layers(seed)
    x = b.node("Relu", [b.normed_conv("x", 3, 64, 7, "stem", stride=2)], "stem.relu")
    x, channels = b.max_pool(x, "pool", pads=[1, 1, 1, 1]), 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, outer = width << stage, 256 << stage
        for i in range(blocks):
            name, stride = f"{stage}.{i}", 2 if stage and not i else 1
            y = b.node("Relu", [b.normed_conv(x, channels, inner, 1, f"{name}.0")], f"{name}.relu0")
            y = b.normed_conv(y, inner, inner, 3, f"{name}.1", stride, group)
            y = b.normed_conv(b.node("Relu", [y], f"{name}.relu1"), inner, outer, 1, f"{name}.2", share=8)
            short = x if i else b.normed_conv(x, channels, outer, 1, f"{name}.short", stride)
            x, channels = b.node("Relu", [b.node("Add", [y, short], f"{name}.sum")], f"{name}.relu"), outer
    x = b.node("Flatten", [b.node("GlobalAveragePool", [x], "average")], "flatten")
    x = b.dense(x, channels, classes, "scores")
    return b.finish("resnet50" if group == 1 else "resnext50", {"x": IMAGE}, {x: (1, classes)})


MODELS: dict[str, Callable[[int], onnx.ModelProto]] = {
    "lora_mlp": lora_mlp,
    "lstm_2x20": lambda seed: lstm(seed, 2, 20),
    "lstm_10x100": lambda seed: lstm(seed, 10, 100),
    "mmoe": mmoe,
    "nasrnn": nasrnn,
    "squeezenet": squeezenet,
    "resnet50": lambda seed: resnet(seed, 1, 64),
    "resnext50": lambda seed: resnet(seed, 32, 128),
    "mobileone": mobileone_s0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(MODELS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - MODELS.keys():
        parser.error(f"there is no model {min(unknown)!r} ({', '.join(MODELS)})")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or MODELS:
        path = arguments.folder / f"{name}.onnx"
        onnx.save(MODELS[name](arguments.seed), path)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
