"""Evaluates operators in floating point, by reading their definitions as arrays (see `reading`); folds constants.

Real numbers are computed in float64. Integers are computed in int64 (those of type uint64 as Python integers) and wrap
around when they are converted back to their own type. Truth values are 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
from onnx import helper

from superopt.evaluate.composite import along_equations, is_composite
from superopt.evaluate.fast import KERNELS, sigmoid
from superopt.evaluate.indices import Array
from superopt.evaluate.reading import Exponential, Inverse, Negative, Reading
from superopt.ir.term import Term
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.ops.definition import Operand

__all__ = ["Floats", "by_definition", "compute", "numpy_dtype", "typed"]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy element type of "float", "bfloat16" and so on (those that NumPy lacks come from ml_dtypes)."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(name.upper())))


def typed(x: Array, dtype: str) -> Array:
    """Return `x` in the element type in which values of type `dtype` are kept; integers wrap around.

    Arrays of objects (symbolic sizes in the place of integers) are returned unchanged.
    """
    own = np.dtype(np.float64) if dtype in FLOAT_DTYPES else numpy_dtype(dtype)
    if x.dtype == object and own.kind in "iu":
        if own != np.uint64:
            return x
        x = np.asarray(x & ((1 << 64) - 1)).astype(np.uint64)
    return x.astype(own, copy=False)


def _erf(x: Array) -> Array:
    values = np.fromiter(map(math.erf, x.ravel().tolist()), np.float64, x.size)  # half the time of np.vectorize
    return values.reshape(x.shape)


def _power(x: Array, y: Any) -> Array:
    return np.asarray(np.power(x, np.asarray(y, np.float64)))


def _truncated_quotient(x: Array, y: Array) -> Array:
    return np.asarray((x - np.fmod(x, y)) // y)


def _log_sum(x: Array) -> Array:
    """Return log(sum exp(x)) along the first axis."""
    return np.asarray(np.logaddexp.reduce(x, axis=0))


def _rounded(dtype: str) -> Callable[[Array], Array]:
    """Return the conversion to an element type. Floats are rounded to the type, but kept in float64.

    Integers are rounded to a real type at once. ONNX Runtime rounds to float16 by way of float.
    """

    def rounded(x: Array) -> Array:
        x = np.asarray(x)
        if x.dtype == object or dtype not in FLOAT_DTYPES:
            x = typed(x, dtype)
        for step in ("float", "float16") if dtype == "float16" else (dtype,):
            x = x.astype(numpy_dtype(step))
        return typed(x, dtype)

    return rounded


def _saturated(dtype: str) -> Callable[[Array], Array]:
    """Return the rounding to the nearest integer of a type. NaN becomes the least one, as in ONNX Runtime."""
    ends = np.iinfo(dtype)
    return lambda x: np.rint(np.where(np.isnan(x), ends.min, np.clip(x, ends.min, ends.max)))


_TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "log_sum": _log_sum,
    "power": _power,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "round": np.rint,
    "truncated_quotient": _truncated_quotient,
    "real_remainder": np.fmod,
    "interpolation_weight": lambda n, d, tap: 1 - np.abs(np.mod(n, d) / d - tap),
    **{f"to_{dtype}": _rounded(dtype) for dtype in (*_TYPES, "float16", "float", "double")},
    **{f"from_real_to_{dtype}": _rounded(dtype) for dtype in _TYPES},
    **{f"saturate_to_{dtype}": _saturated(dtype) for dtype in ("int8", "uint8", "int16", "uint16")},
}


def _wide(x: Any) -> Any:
    """Return `x` in an element type that holds results of arithmetic."""
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "biu" or x.dtype == np.int64:
        return x
    return x.astype(object if x.dtype == np.uint64 else np.int64)


class Floats(Reading):
    """The reading in floating point: scalars in float64, int64, or their own type if only moved or compared."""

    minus_one = -1

    def constant(self, value: Fraction) -> Any:
        return value.numerator if value.denominator == 1 else float(value)

    def whole(self, value: Array) -> Array:
        return value

    def places(self, value: Array, size: int) -> Array:
        """Raises IndexError for an integer out of range."""
        places = value.astype(np.int64)
        if ((places < -size) | (places >= size)).any():
            raise IndexError(f"an index along {size} elements")
        return places % size

    def plus(self, left: Any, right: Any) -> Any:
        return _wide(left) + _wide(right)

    def minus(self, left: Any, right: Any) -> Any:
        return _wide(left) - _wide(right)

    def times(self, left: Any, right: Any) -> Any:
        return _wide(left) * _wide(right)

    def over(self, left: Any, right: Any) -> Any:
        return np.true_divide(left, right)

    def opposite(self, x: Any) -> Any:
        return -_wide(x)

    def total(self, x: Array) -> Any:
        return x.sum(axis=0)

    def settled(self, x: Any) -> Any:
        return x

    def widened(self, x: Any) -> Any:
        return _wide(x)

    def larger(self, left: Any, right: Any) -> Any:
        return np.maximum(left, right)

    def smaller(self, left: Any, right: Any) -> Any:
        return np.minimum(left, right)

    def greatest(self, x: Array, least: bool) -> Array:
        return np.asarray(x.min(axis=0) if least else x.max(axis=0))

    def size_of(self, x: Any) -> Any:
        return np.abs(x)

    def related(self, relation: str, left: Any, right: Any) -> Any:
        return {">": np.greater, ">=": np.greater_equal, "==": np.equal}[relation](left, right)

    def extreme(self, dtype: np.dtype[Any], largest: bool) -> Any:
        if dtype.kind in "iu":
            return np.iinfo(dtype).max if largest else np.iinfo(dtype).min
        return largest if dtype.kind == "b" else math.inf if largest else -math.inf

    def function(self, name: str, *arguments: Any) -> Any:
        return _FUNCTIONS[name](*arguments)

    def scalars(self, x: Any, shape: Sequence[int], dtype: str) -> Operand:
        """Return an operand of a definition whose elements are `x`, a scalar of this reading."""
        if isinstance(x, Exponential):
            exponent = self.operand(x.x, shape, dtype)
            return Operand(tuple(shape), dtype, lambda *index: Exponential(exponent.at(*index)))
        if not isinstance(x, np.ndarray):
            return Operand(tuple(shape), dtype, lambda *index: x)
        return self.operand(x, shape, dtype)

    # Exponentials are kept as their exponents: exp(a) + exp(b) by `logaddexp`, exp(a) - 1 by `expm1`.

    def add(self, *parts: Any) -> Any:
        if any(isinstance(part, Exponential) for part in parts):
            if all(isinstance(part, Exponential) or (isinstance(part, int) and part == 1) for part in parts):
                first, *rest = (part.x if isinstance(part, Exponential) else 0 for part in parts)
                for exponent in rest:
                    first = np.logaddexp(first, exponent)
                return Exponential(first)
            if len(parts) == 2 and isinstance(parts[1], int) and parts[1] == -1:
                return np.expm1(parts[0].x)
        return super().add(*parts)

    def multiply(self, left: Any, right: Any) -> Any:
        if isinstance(left, Exponential):
            if isinstance(right, Exponential):
                return Exponential(left.x + right.x)
            if isinstance(right, Inverse) and isinstance(right.x, Exponential):
                return Exponential(left.x - right.x.x)
        return super().multiply(left, right)

    def maximum(self, parts: Sequence[Any]) -> Any:
        """max(-x, -2) is -min(x, 2): the least integer has no negative of its type."""
        if any(isinstance(part, Negative) for part in parts):
            parts = [Negative(-part) if isinstance(part, (int, float)) else part for part in parts]
        return super().maximum(parts)

    def apply(self, function: str, *arguments: Any) -> Any:
        if function == "exp":
            return Exponential(self.value(arguments[0]))
        if function == "log" and isinstance(arguments[0], Exponential):
            return arguments[0].x
        if function == "reciprocal" and isinstance(arguments[0], Exponential):
            return Inverse(arguments[0])
        return super().apply(function, *arguments)


def compute(
    op: str, types: Sequence[TensorType | None], attrs: Mapping[str, Any], xs: Sequence[Any], out: TensorType
) -> Array:
    """Return the value of an operator on the operands `xs` with these types (None: absent), all of known sizes.

    The attribute `index` selects one of several outputs.
    """
    shape = out.concrete()
    assert shape is not None
    if op in KERNELS:
        return typed(KERNELS[op](xs, attrs), out.dtype)
    return _kept(by_definition(op, types, attrs, xs, out), shape, out.dtype)


def by_definition(
    op: str, types: Sequence[TensorType | None], attrs: Mapping[str, Any], xs: Sequence[Any], out: TensorType
) -> Any:
    """Return the value of an operator, like `compute`, but always by its definition.

    The result is a scalar of the reading. Operands may be arrays or such scalars.
    """
    shape = out.concrete()
    assert shape is not None
    if 0 in shape:  # nothing to define, and definitions may ask for an element: a mean, an index modulo a size
        return np.zeros(shape)
    if is_composite(op):
        return along_equations(op, types, attrs, xs, _step)
    reading = Floats(shape)
    operands = [
        None if type is None else reading.scalars(x, type.concrete() or (), type.dtype)
        for x, type in zip(xs, types, strict=True)
    ]
    found = reading.scalar(op, operands, attrs)
    return found if isinstance(found, Exponential) else reading.value(found)


def _step(
    op: str, attrs: Mapping[str, Any], operands: Sequence[Term | None], xs: Sequence[Any], out: TensorType
) -> Any:
    """Compute one operator of an equation. Numbers are not made arrays, and exponentials are kept as exponents."""
    shape, types = out.concrete(), [None if x is None else x.type for x in operands]
    assert shape is not None
    if op in KERNELS and xs:
        whole = [
            None if type is None else _kept(x, type.concrete() or (), type.dtype)
            for x, type in zip(xs, types, strict=True)
        ]
        return compute(op, types, attrs, whole, out)
    found = by_definition(op, types, attrs, xs, out)
    if isinstance(found, Exponential):
        return Exponential(np.broadcast_to(Floats(shape).array(found.x), shape))
    return _kept(found, shape, out.dtype) if isinstance(found, np.ndarray) else found


def _kept(x: Any, shape: tuple[int, ...], dtype: str) -> Array:
    """Return a scalar of the reading as an array of this shape and element type."""
    found = typed(Floats(shape).array(x), dtype)
    return found if found.shape == shape else np.broadcast_to(found, shape)
