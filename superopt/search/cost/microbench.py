"""Small ONNX models made of terms, to be timed: parts of a graph over inputs and weights of the right types."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from superopt.evaluate import numpy_dtype
from superopt.ir.dim import Dim, Size, evaluate
from superopt.ir.infer import make
from superopt.ir.term import Attr, Term, topological
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.onnx_io import ModelError, write_model
from superopt.onnx_io.build import new_model
from superopt.runtime import CannotRun, Target, open_session

__all__ = ["Array", "Unmeasurable", "Unrunnable", "concrete", "concrete_attrs", "random_array", "runner", "tiny"]

LINE = "line"  # the constant [-1]: the shape that Reshape takes for a vector
Array = np.ndarray[Any, np.dtype[Any]]


class Unmeasurable(RuntimeError):
    """A graph cannot be run by itself: sizes are not known, values are not tensors, or the runtime refuses it."""


class Unrunnable(Unmeasurable):
    """The runtime does not run it: it has no kernel, or none for that element type."""


def concrete(type: TensorType | None, sizes: Mapping[str, int]) -> TensorType:
    """`type` with symbols replaced by `sizes`. Raises Unmeasurable where a size stays unknown or is 0."""
    if type is not None and type.shape is not None:
        type = type.with_sizes(dict(sizes))
    shape = None if type is None else type.concrete()
    if type is None or shape is None or 0 in shape:
        raise Unmeasurable(f"a value of type {type}")
    return TensorType(type.dtype, shape)


def concrete_attrs(attrs: Iterable[tuple[str, Attr]], sizes: Mapping[str, int]) -> dict[str, Attr]:
    """`attrs` with symbols replaced by `sizes`, inside tuples and the sizes of shapes, too."""

    def at(value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(map(at, value))
        return evaluate(value, sizes) if isinstance(value, Dim) else value

    return {name: at(value) for name, value in attrs}


def random_array(type: TensorType, seed: int) -> Array:
    """Values that keep a graph's values in range: floats in [0.5, 1.5] over the square root of the size of what a
    product sums over (all axes but the first, for weights of Convs); integers 0, as indices must be valid."""
    shape = type.concrete()
    assert shape is not None
    rng = np.random.default_rng([seed, *shape])
    dtype = numpy_dtype(type.dtype)
    if type.dtype in FLOAT_DTYPES:
        fan = math.prod(shape[1:]) if len(shape) > 1 else 1
        return np.asarray((rng.random(shape) + 0.5) / math.sqrt(max(1, fan))).astype(dtype)
    if type.dtype == "string":
        raise Unmeasurable("strings")
    return np.zeros(shape, dtype)


def tiny(value: Term) -> Term:
    """One element of `value`: as an output of a model it costs nothing, where a whole tensor is allocated anew.

    The Reshape, free by itself, keeps the runtime from taking the element before it computes the rest.
    """
    if value.type is None or not value.type.shape:
        return value
    count: Size = 1
    for size in value.type.shape:
        count = count * size
    flat = TensorType(value.type.dtype, (count,))
    line = Term.of("Const", (), {"hash": LINE}, (TensorType("int64", (1,)),))
    return make(
        "Slice",
        (Term.of("ai.onnx::Reshape", (value, line), {}, (flat,)),),
        {"axes": (-1,), "starts": (0,), "ends": (1,), "steps": (1,)},
    )


def runner(
    outputs: Sequence[Term], weights: Mapping[str, Array], target: Target, *, opset: int = 17, seed: int = 0
) -> Callable[[], object]:
    """A call that runs the graph once, on random inputs. Types must be concrete. Raises Unmeasurable, and of that
    Unrunnable."""
    feeds: dict[str, Array] = {}
    for term in topological(outputs):
        if term.op == "Var":
            feeds[str(term.attr("name"))] = random_array(concrete(term.type, {}), seed)
    weights = {**weights, LINE: np.array([-1], np.int64)}
    try:
        model: onnx.ModelProto = write_model(new_model(outputs, weights, opset=opset))
        session = open_session(model, target)
        session.run(feeds)
    except ModelError as error:
        raise Unmeasurable(str(error)) from error
    except CannotRun as error:
        raise Unrunnable(str(error)) from error
    return lambda: session.run(feeds)
