"""Integers at the edges of their types, for every operator that computes with them, at the types of ONNX Runtime.

What the runtime does with them is stated in the operators' entries (`superopt.ir.operator.Integers`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.semantic_cases.case import Array, Case

__all__ = ["EDGES", "INTEGERS", "Row", "draw"]

_ALL = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_SIGNED = ("int8", "int16", "int32", "int64")
_32_64 = ("int32", "int64")
_EXTREMA = ("int8", "int32", "int64", "uint8", "uint32", "uint64")

# How tensors are filled: small numbers; what float and double round; the ends of the type; all of the type.
EDGES = ("small", "float", "double", "ends", "any")


def draw(rng: random.Random, shape: tuple[int, ...], dtype: str, edge: str) -> Array:
    """Return integers of one kind of `EDGES`."""
    ends = np.iinfo(dtype)
    low, high = int(ends.min), int(ends.max)
    near = [low, low + 1, low // 2, -2, -1, 0, 1, 2, high // 2, high // 2 + 1, high - 1, high]
    bound = {"small": 3, "float": 1 << 26, "double": 1 << 56}.get(edge, high)

    def one() -> int:
        if edge == "ends":
            return max(low, rng.choice(near))
        return rng.randint(max(low, -bound - (edge == "any")), min(high, bound))

    numbers = [one() for _ in range(int(np.prod(shape)))]
    return np.array(numbers, object).astype(dtype).reshape(shape)


Make = Callable[[random.Random, int, Callable[..., Array]], tuple[dict[str, Any], list[Array]]]


@dataclass(frozen=True)
class Row:
    """The element types of an operator, and a use of it along `size` elements.

    `make` gets a function that fills a shape. `opset` is one whose version of the operator has all of the types.
    """

    dtypes: tuple[str, ...]
    make: Make
    opset: int = 20

    def case(self, rng: random.Random, dtype: str, size: int, edge: str) -> Case:
        attrs, arrays = self.make(rng, size, lambda *shape: draw(rng, shape, dtype, edge))
        return Case(attrs, arrays, opset=self.opset)


def _elementwise(count: int) -> Make:
    """Operands of `size` elements, the last of which may be a scalar."""

    def make(rng: random.Random, size: int, fill: Callable[..., Array]) -> tuple[dict[str, Any], list[Array]]:
        arrays = [fill(size) for _ in range(count)]
        return {}, [*arrays[:-1], fill()] if count > 1 and rng.random() < 0.3 else arrays

    return make


def _divided(rng: random.Random, size: int, fill: Callable[..., Array]) -> tuple[dict[str, Any], list[Array]]:
    """No division by 0, and none of the least integer by -1: both stop the run."""
    x, y = fill(size), fill(size)
    y[y == 0] = 3
    if x.dtype.kind == "i":
        y[(y == -1) & (x == np.iinfo(x.dtype).min)] = 2
    return {}, [x, y]


def _reduced(rng: random.Random, size: int, fill: Callable[..., Array]) -> tuple[dict[str, Any], list[Array]]:
    axis = rng.choice((-1, -2))
    return {"axes": (axis,), "keepdims": 0}, [fill(3, size) if axis == -1 else fill(size, 3)]


def _placed(rng: random.Random, size: int, fill: Callable[..., Array]) -> tuple[dict[str, Any], list[Array]]:
    return {"axis": -1, "keepdims": 0, "select_last_index": rng.randint(0, 1)}, [fill(3, size)]


def _clipped(rng: random.Random, size: int, fill: Callable[..., Array]) -> tuple[dict[str, Any], list[Array]]:
    x = fill(size)
    ends = np.iinfo(x.dtype)
    low, high = rng.choice([(1.0, 5.0), (5.0, 1.0), (float(ends.min), float(ends.max // 2 + 1)), (3.0, np.inf)])
    return {"bound_low": low if low != float(ends.min) else -np.inf, "bound_high": high}, [x]


def _einsum(rng: random.Random, size: int, fill: Callable[..., Array]) -> tuple[dict[str, Any], list[Array]]:
    if rng.random() < 0.5:
        return {"equation": "ab->a"}, [fill(3, size)]
    return {"equation": "ab,b->a"}, [fill(3, size), fill(size)]


def _window(rng: random.Random, size: int, fill: Callable[..., Array]) -> tuple[dict[str, Any], list[Array]]:
    attrs = {"dilations": (1, 1), "kernel_shape": (2, 2), "pads": (1, 0, 0, 1), "strides": (1, 1)}
    return attrs, [fill(1, 2, 2, size)]


def _selected(rng: random.Random, size: int, fill: Callable[..., Array]) -> tuple[dict[str, Any], list[Array]]:
    return {}, [np.array([rng.random() < 0.5 for _ in range(size)]), fill(size), fill(size)]


INTEGERS: Mapping[str, Row] = {
    **dict.fromkeys(("Add", "Sub", "Mul"), Row(_ALL, _elementwise(2))),
    "Div": Row(_ALL, _divided),
    "Mod": Row(_ALL, lambda rng, size, fill: ({"fmod": 0}, _divided(rng, size, fill)[1])),
    "OneHot": Row(("int64",), lambda rng, size, fill: ({"axis": 0, "depth": 3}, [fill(size), fill(2)])),
    **dict.fromkeys(("Max", "Min"), Row(_EXTREMA, _elementwise(3))),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), Row(_ALL, _elementwise(2))),
    "Neg": Row(_SIGNED, _elementwise(1)),
    "Relu": Row(("int8", "int32"), _elementwise(1)),
    **dict.fromkeys(("Abs", "Sign"), Row(_ALL, _elementwise(1))),
    "Clip": Row(_EXTREMA, _clipped),
    "Where": Row(("int8", "int32", "int64", "uint8", "uint32"), _selected),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare"), Row(_32_64, _reduced)),
    **dict.fromkeys(("ReduceMax", "ReduceMin"), Row(("int8", "int32", "int64", "uint8"), _reduced)),
    **dict.fromkeys(("ArgMax", "ArgMin"), Row(("int8", "int32", "int64", "uint8"), _placed)),
    "MatMul": Row(
        ("int32", "int64", "uint32", "uint64"), lambda rng, size, fill: ({}, [fill(2, size), fill(size, 3)])
    ),
    "Einsum": Row(_32_64, _einsum),
    "CumSum": Row(
        _32_64,
        lambda rng, size, fill: (
            {"axis": -1, "exclusive": rng.randint(0, 1), "reverse": rng.randint(0, 1)}, [fill(2, size)]
        ),
    ),
    "MaxPool": Row(("int8", "uint8"), _window),
    "Cast": Row(
        _ALL,
        lambda rng, size, fill: ({"to": rng.choice((*_ALL, "bool", "float16", "float", "double"))}, [fill(size)]),
    ),
}  # fmt: skip
