"""Small models for tests of `check`, and mutations of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt.check import Answer, CheckOptions, check
from tests.support.models import floats, model, weights

node = helper.make_node
_W, _V, _K = weights(8, 8), weights(8, 8, seed=1), weights(4, 3, 3, 3, seed=2)


def network(opset: int = 17) -> onnx.ModelProto:
    """A small network with a Conv, a Softmax and products."""
    return model(
        [
            node("Conv", ["image", "k"], ["c"], pads=[1, 1, 1, 1]),
            node("ReduceMean", ["c"], ["p"], axes=[1, 3], keepdims=0),
            node("MatMul", ["p", "w"], ["m"]),
            node("Softmax", ["m"], ["s"], axis=-1),
            node("MatMul", ["x", "v"], ["n"]),
            node("Sub", ["s", "n"], ["d"]),
            node("Concat", ["d", "s"], ["y"], axis=1),
        ],
        [floats("image", "N", 3, 8, 8), floats("x", "N", 8)],
        [floats("y", "N", 16)],
        [("w", _W), ("v", _V), ("k", _K)],
        opset,
    )


def checked(left: onnx.ModelProto, right: onnx.ModelProto, seconds: float = 20.0) -> Answer:
    """Return what `check` answers in `seconds` seconds."""
    return check(left, right, CheckOptions(seconds=seconds))


def scaled(name: str, element: tuple[int, ...] | None = None) -> Callable[[onnx.ModelProto], None]:
    """Return a mutation: a weight, or one element of it, times 1.01."""

    def mutate(proto: onnx.ModelProto) -> None:
        for tensor in proto.graph.initializer:
            if tensor.name == name:
                values = numpy_helper.to_array(tensor).copy()
                values[element or ...] *= np.float32(1.01)
                tensor.CopyFrom(numpy_helper.from_array(values, name))

    return mutate


def attribute(op: str, name: str, value: object) -> Callable[[onnx.ModelProto], None]:
    """Return a mutation: another value of an attribute."""

    def mutate(proto: onnx.ModelProto) -> None:
        for one in proto.graph.node:
            if one.op_type == op:
                kept = [a for a in one.attribute if a.name != name]
                del one.attribute[:]
                one.attribute.extend([*kept, helper.make_attribute(name, value)])

    return mutate


def swapped(op: str) -> Callable[[onnx.ModelProto], None]:
    """Return a mutation: the first two operands exchanged."""

    def mutate(proto: onnx.ModelProto) -> None:
        for one in proto.graph.node:
            if one.op_type == op:
                one.input[:] = reversed(one.input)

    return mutate


def relu(*shape: int | str, name: str = "x", out: str = "y", dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(n, dtype, list(shape)) for n in (name, out)]
    return model([node("Relu", [name], [out])], values[:1], values[1:])


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)
