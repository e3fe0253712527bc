"""Small ONNX models to be timed: parts of a graph, over random inputs and weights of the right types."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from superopt.evaluate import numpy_dtype
from superopt.ir.dim import Size
from superopt.ir.infer import make
from superopt.ir.term import Term, topological
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.onnx_io import ModelError, write_model
from superopt.onnx_io.build import new_model
from superopt.runtime import TimedModel

__all__ = [
    "Array",
    "Unmeasurable",
    "Unrunnable",
    "concrete",
    "random_array",
    "single_element",
    "timed_model",
]

_VECTOR_SHAPE = "line"  # name of the constant [-1], the shape that Reshape takes for a vector
_MAX_DRAWN = 1_000_003  # elements; a prime, so that the rows of a matrix differ
Array = np.ndarray[Any, np.dtype[Any]]


class Unmeasurable(RuntimeError):
    """The graph cannot be run alone: sizes are unknown, values are not tensors, or the runtime refuses it."""


class Unrunnable(Unmeasurable):
    """The runtime cannot run the graph: it has no kernel for an operator, or none for its element type."""


def concrete(type: TensorType | None, sizes: Mapping[str, int]) -> TensorType:
    """Return `type` with symbols replaced by `sizes`. Raises Unmeasurable if a size stays unknown or is 0."""
    if type is not None and type.shape is not None:
        type = type.with_sizes(dict(sizes))
    shape = None if type is None else type.concrete()
    if type is None or shape is None or 0 in shape:
        raise Unmeasurable(f"a value of type {type}")
    return TensorType(type.dtype, shape)


def random_array(type: TensorType, seed: int) -> Array:
    """Return random values that keep a graph's values in range.

    Floats are in [0.5, 1.5], divided by the square root of the number of elements that a product sums over (all axes
    but the first, for weights of Convs). Integers are 0, because indices must be valid. Large arrays repeat themselves.
    """
    shape = type.concrete()
    assert shape is not None
    if type.dtype in FLOAT_DTYPES:
        return np.resize(_drawn(shape, type.dtype, seed), shape)
    if type.dtype == "string":
        raise Unmeasurable("strings")
    return np.zeros(shape, numpy_dtype(type.dtype))


@functools.lru_cache(maxsize=4)  # a model has many operands of one type
def _drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Return the first values of a random array of floats."""
    fan = math.prod(shape[1:]) if len(shape) > 1 else 1
    drawn = np.random.default_rng([seed, *shape]).random(min(math.prod(shape), _MAX_DRAWN))
    return ((drawn + 0.5) / math.sqrt(max(1, fan))).astype(numpy_dtype(dtype))


def single_element(value: Term, index: int = 0) -> Term:
    """Return a term for one element of `value`, to serve as the output of a timed model.

    A whole tensor as an output would be allocated again in each run. The Reshape in between is free, and keeps the
    runtime from computing only that element.
    """
    if value.type is None or not value.type.shape:
        return value
    count: Size = 1
    for size in value.type.shape:
        count = count * size
    flat = TensorType(value.type.dtype, (count,))
    vector = Term.of("Const", (), {"hash": _VECTOR_SHAPE}, (TensorType("int64", (1,)),))
    return make(
        "Slice",
        (Term.of("ai.onnx::Reshape", (value, vector), {}, (flat,)),),
        {"axes": (-1,), "starts": (index,), "ends": (index + 1,), "steps": (1,)},
    )


def timed_model(outputs: Sequence[Term], weights: Mapping[str, Array], *, opset: int = 17, seed: int = 0) -> TimedModel:
    """Return the graph as a model, with random inputs. Types must be concrete. Raises Unmeasurable."""
    feeds: dict[str, Array] = {}
    for term in topological(outputs):
        if term.op == "Var":
            feeds[str(term.attr("name"))] = random_array(concrete(term.type, {}), seed)
    weights = {**weights, _VECTOR_SHAPE: np.array([-1], np.int64)}
    try:
        return TimedModel(write_model(new_model(outputs, weights, opset=opset)), feeds)
    except ModelError as error:
        raise Unmeasurable(str(error)) from error
