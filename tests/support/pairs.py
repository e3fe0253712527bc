"""Models of few nodes, and the proof that two of them are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from superopt.check.equality import joined, prove_equal
from superopt.check.proven import Equality
from superopt.onnx_io import Model, read_simplified
from tests.support.models import model, weights

__all__ = ["folded", "graph", "proven", "shared", "third"]

node = helper.make_node
N, C = "n", 4


def graph(
    *nodes: onnx.NodeProto, shape: tuple[int | str, ...] = (N, C), dtype: int = TensorProto.FLOAT, **values: Any
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


def third(factor: float = 1 / 3) -> tuple[Model, Model]:
    """Return x / 3 and x times a factor."""
    return (
        graph(node("Div", ["x", "c"], ["y"]), c=np.float32(3)),
        graph(node("Mul", ["x", "c"], ["y"]), c=np.float32(factor)),
    )


def folded(factor: float = 1.0) -> tuple[Model, Model]:
    """Return a BatchNormalization after a Conv, and one in its weights, computed in float32 as tools do it."""
    kernel, s = weights(C, C, 3, 3), weights(C, seed=3)
    o, m, v = (np.abs(weights(C, seed=seed)) + np.float32(0.5) for seed in (5, 6, 7))
    scale = s / np.sqrt(v + np.float32(1e-5))
    scaled, image = kernel * scale[:, None, None, None], (N, C, 6, 6)
    scaled[1, 1, 1, 1] *= np.float32(factor)
    bn = node("BatchNormalization", ["h", "s", "o", "m", "v"], ["y"])
    return (
        graph(node("Conv", ["x", "k"], ["h"]), bn, shape=image, k=kernel, s=s, o=o, m=m, v=v),
        graph(node("Conv", ["x", "k", "b"], ["y"]), shape=image, k=scaled, b=o - m * scale),
    )


def shared(row: float = 0) -> tuple[Model, Model]:
    """Return models with two readers of the first row of e, opaque ones, which the left one computes in two ways.

    `row` changes one of them.
    """

    def read(silu: list[onnx.NodeProto], index: list[onnx.NodeProto], second: str) -> Model:
        nodes = [node("Gather", ["e", "zero"], ["a"], axis=0), *index, *silu]
        nodes += [node("GatherND", ["x", "a"], ["u"]), node("GatherND", ["m", second], ["v"])]
        nodes += [node("Sub", ["u", "v"], ["y"])]
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["k", C]),
            helper.make_tensor_value_info("e", TensorProto.INT64, [2, N, 1]),
        ]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        numbers = {"zero": np.array(0), "row": np.array(int(row)), "axes": np.array([0]), "parts": np.array([1, 1])}
        return read_simplified(model(nodes, inputs, [output], list(numbers.items())))

    plain = [node("Sigmoid", ["x"], ["g"]), node("Mul", ["x", "g"], ["m"])]
    fused = [helper.make_node("QuickGelu", ["x"], ["m"], domain="com.microsoft", alpha=1.0)]
    split = [node("Split", ["e", "parts"], ["first", "rest"], axis=0), node("Squeeze", ["first", "axes"], ["b"])]
    other = [node("Gather", ["e", "row"], ["c"], axis=0)] if row else []
    return read(plain, split, "b"), read(fused, other, "c" if row else "a")
