"""Conversions between real numbers and small integers, and products of small integers."""

from __future__ import annotations

import random

import numpy as np

from tests.support.semantic_cases.case import Array, Case, Maker, shape_of, values

__all__ = ["CASES"]

_SMALL = ("int8", "uint8", "int8", "uint8", "int16", "uint16")


def _ends(dtype: str) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _parameters(rng: random.Random, shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The axis, and the shape of scale and zero point."""
    if not shape or rng.random() < 0.5:
        return -1, rng.choice([(), (1,)])
    axis = rng.randrange(len(shape)) - len(shape)
    return (axis if shape[axis] > 1 else -1), (shape[axis],)


def _quantize(rng: random.Random) -> Case:
    x = values(rng, shape_of(rng, 0, 4), "float32", -90, 90)
    axis, own = _parameters(rng, x.shape)
    dtype = rng.choice(_SMALL)
    scale = np.asarray(np.exp2(np.rint(values(rng, own, low=-3, high=2))), np.float32)
    x = np.asarray(np.rint(x * 2) / 2 if rng.random() < 0.5 else x, np.float32)  # many halfway between integers
    arrays: list[Array] = [x, scale]
    if dtype != "uint8" or rng.random() < 0.7:
        arrays.append(values(rng, own, dtype, *_ends(dtype)))
    return _case(rng, axis, arrays, dtype)


def _case(rng: random.Random, axis: int, arrays: list[Array], dtype: str) -> Case:
    """onnx.reference has these operators since opset 19, and 16-bit integers are new in 21."""
    opset = rng.choice([21, 23] if "16" in dtype else [13, 17, 19, 21, 23])
    return Case({"axis": axis}, arrays, ("onnxruntime", "reference") if opset >= 19 else ("onnxruntime",), opset)


def _dequantize(rng: random.Random) -> Case:
    dtype = rng.choice((*_SMALL, "int32"))
    shape = shape_of(rng, 0, 4)
    axis, own = _parameters(rng, shape)
    bounds = (-1000, 1000) if dtype == "int32" else _ends(dtype)
    arrays: list[Array] = [values(rng, shape, dtype, *bounds), values(rng, own, low=-1, high=1)]
    if dtype != "int32" and rng.random() < 0.7:  # a zero point of int32 must be 0
        arrays.append(values(rng, own, dtype, *bounds))
    return _case(rng, axis, arrays, dtype)


# Without the pair whose product depends on the processor (`superopt.ops.quantize`).
_MATRIX_TYPES = (("int8", "int8"), ("int8", "uint8"), ("uint8", "uint8"))
_FILTER_TYPES = (("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8"))


def _matmul_integer(rng: random.Random) -> Case:
    m, k, n = (rng.randint(1, 4) for _ in range(3))
    batch = shape_of(rng, 0, 2)
    dtypes = rng.choice(_MATRIX_TYPES)
    shapes = (*batch, m, k), ((*batch, k, n) if rng.random() < 0.5 else (k, n))
    arrays: list[Array | None] = [
        values(rng, shape, dtype, *_ends(dtype)) for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    arrays += [values(rng, (), dtype, *_ends(dtype)) for dtype in dtypes[: rng.randint(0, 2)]]
    return Case({}, arrays, opset=rng.choice([10, 17, 21]))


def _conv_integer(rng: random.Random) -> Case:
    group, kernel = rng.choice([1, 1, 2]), [rng.randint(1, 3) for _ in range(2)]
    size = [k + rng.randint(0, 3) for k in kernel]
    dtypes = rng.choice(_FILTER_TYPES)
    channels = rng.randint(1, 2)
    shapes = (rng.randint(1, 2), group * channels, *size), (group * rng.randint(1, 2), channels, *kernel)
    arrays: list[Array | None] = [
        values(rng, shape, dtype, *_ends(dtype)) for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    arrays += [values(rng, (), dtype, *_ends(dtype)) for dtype in dtypes[: rng.randint(0, 2)]]
    attrs = {
        "dilations": (1, 1),
        "group": group,
        "pads": tuple(rng.randint(0, 2) for _ in range(4)),
        "strides": (rng.randint(1, 2), rng.randint(1, 2)),
    }
    return Case(attrs, arrays, opset=rng.choice([10, 17, 21]))


CASES: dict[str, Maker] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
}
