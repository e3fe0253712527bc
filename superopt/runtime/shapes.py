"""Shapes of a model's inputs: as the model declares them, and as the user gives them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple, TypeAlias

import onnx

__all__ = [
    "GivenShape",
    "InputError",
    "InputShapes",
    "InputSpec",
    "SizeRange",
    "Unfeedable",
    "check_given",
    "input_specs",
    "parse_shape",
    "shape_problem",
    "show_shape",
]

_MOST_ELEMENTS = 1 << 47  # bytes that a process of today can address


class SizeRange(NamedTuple):
    """The sizes from `low` to `high`, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


GivenShape: TypeAlias = tuple["int | tuple[int, int]", ...]  # a pair is the ends of a range
InputShapes: TypeAlias = Mapping[str, tuple[int, ...]]  # concrete shapes by input


class InputError(ValueError):
    """The model does not accept a given shape; the message is one line."""


class Unfeedable(RuntimeError):
    """No value can be drawn for an input; the message is one line that names the input."""


@dataclass(frozen=True)
class InputSpec:
    """A required input: its element type (ONNX's number) and shape (None: unknown rank).

    A size that is None is dynamic, and `symbols` has its name.
    """

    name: str
    elem_type: int
    shape: tuple[int | None, ...] | None
    symbols: tuple[str | None, ...] = ()


def parse_shape(text: str) -> tuple[str, GivenShape]:
    """Parse `input=1x3x224x224`, or `input=1..64x128` with a range, to name and shape; `input=` is a scalar.

    Raises InputError.
    """
    name, equals, sizes = text.rpartition("=")
    if not equals or not name or not re.fullmatch(r"(\d+(\.\.\d+)?([x,]\d+(\.\.\d+)?)*)?", sizes):
        raise InputError(f"shape {text!r} is not of the form input=1x3x224x224 or, with ranges, input=1..64x128")
    shape = tuple(_parse_size(size) for size in re.split("[x,]", sizes) if size)
    check_given(name, shape)
    return name, shape


def _parse_size(text: str) -> int | SizeRange:
    low, is_range, high = text.partition("..")
    return SizeRange(int(low), int(high)) if is_range else int(low)


def check_given(name: str, shape: GivenShape) -> None:
    """Raise InputError if `shape` is not of its type, for a negative size, an empty range, or too many elements."""
    if not isinstance(shape, (tuple, list)):
        raise InputError(f"the shape of input {name} is {shape!r}, not a tuple of sizes")
    for size in shape:
        if not all(isinstance(end, Integral) for end in (size if isinstance(size, tuple) else (size,))):
            raise InputError(
                f"the shape of input {name} has the size {size!r}; a size is a whole number, or a tuple of two"
            )
        if isinstance(size, tuple):
            if len(size) != 2 or not 1 <= size[0] <= size[1]:
                raise InputError(
                    f"the shape of input {name} has the range {'..'.join(map(str, size))};"
                    " a range begins at 1 or more and does not end below its beginning"
                )
        elif size < 0:
            raise InputError(f"the shape of input {name} has a negative size: {show_shape(shape)}")
    ends = [size if isinstance(size, tuple) else (size, size) for size in shape]
    if math.prod(low for low, _ in ends) > _MOST_ELEMENTS or any(high > _MOST_ELEMENTS for _, high in ends):
        raise InputError(f"the shape of input {name} has more elements than any memory holds: {show_shape(shape)}")


def shape_problem(spec: InputSpec, shape: GivenShape) -> str | None:
    """Return a message if an input does not take values of this shape, else None."""
    if spec.shape is None:
        return None
    if len(shape) == len(spec.shape) and all(s in (None, g) for s, g in zip(spec.shape, shape, strict=True)):
        return None
    sizes = zip(spec.shape, spec.symbols, strict=True)
    declared = [str(size if size is not None else symbol or "?") for size, symbol in sizes]
    given = map(_show_size, shape)
    # The sizes stand apart: batchx64 would read as one name.
    return f"input {spec.name} has shape {' x '.join(declared) or '()'}, not {' x '.join(given) or '()'}"


def show_shape(shape: GivenShape) -> str:
    """Return a shape in the notation of `parse_shape`."""
    return "x".join(map(_show_size, shape))


def _show_size(size: int | tuple[int, int]) -> str:
    return "..".join(map(str, size)) if isinstance(size, tuple) else str(size)


def input_specs(model: onnx.ModelProto) -> list[InputSpec]:
    """Return the inputs without a default value. Raises Unfeedable for an input that is not a tensor."""
    defaults = {i.name for i in model.graph.initializer} | {i.values.name for i in model.graph.sparse_initializer}
    specs: list[InputSpec] = []
    for value in model.graph.input:
        if value.name in defaults:
            continue
        if value.type.WhichOneof("value") != "tensor_type":
            raise Unfeedable(f"input {value.name} is not a tensor")
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            specs.append(InputSpec(value.name, tensor.elem_type, None))
            continue
        dims = tensor.shape.dim
        specs.append(
            InputSpec(
                value.name,
                tensor.elem_type,
                tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in dims),
                tuple(d.dim_param or None for d in dims),
            )
        )
    return specs
