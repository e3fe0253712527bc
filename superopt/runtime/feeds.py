"""Random inputs that a model accepts, reproducible by seed.

Floats are normal or uniform. Integers are more often indices, token numbers or masks than quantities, so 0 and 1 are
tried first: they are valid for Gather and for attention masks of any size. The first draw that the model accepts is
used.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray

__all__ = [
    "Array",
    "Feeds",
    "InputError",
    "InputSpec",
    "Unfeedable",
    "feed_candidates",
    "fix_shapes",
    "input_specs",
    "parse_shape",
    "with_specials",
]

Array: TypeAlias = NDArray[np.generic]
Feeds: TypeAlias = dict[str, Array]

# Exclusive upper bounds of drawn integers, in the order of trial (None: all ones).
_INTEGER_BOUNDS: tuple[int | None, ...] = (2, 1, None, 8)


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


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse `input=1x3x224x224` to name and shape; `input=` is a scalar. Raises InputError."""
    name, equals, sizes = text.rpartition("=")
    if not equals or not name or not re.fullmatch(r"(\d+([x,]\d+)*)?", sizes):
        raise InputError(f"shape {text!r} is not of the form input=1x3x224x224")
    return name, tuple(int(size) for size in re.split("[x,]", sizes) if size)


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


def fix_shapes(
    specs: Sequence[InputSpec], given: Mapping[str, tuple[int, ...]], assume: int = 1
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Return a concrete shape for each input, and notices about sizes that were assumed.

    A size comes from `given`, else from the same symbol in a given shape of another input. Otherwise it is 1 for the
    first axis (a batch) and `assume` for the others. Raises InputError if `given` names an unknown input or contradicts
    the model, Unfeedable if the shape of an input of unknown rank is not given.
    """
    by_name = {spec.name: spec for spec in specs}
    known: dict[str, int] = {}
    for name, shape in given.items():
        if name not in by_name:
            raise InputError(f"there is no input {name!r} (inputs: {', '.join(by_name) or 'none'})")
        spec = by_name[name]
        if not _fits(spec, shape):
            raise InputError(f"input {name} has shape {_shown(spec)}, not {'x'.join(map(str, shape))}")
        known.update({p: size for p, size in zip(spec.symbols, shape, strict=False) if p is not None})
    shapes: dict[str, tuple[int, ...]] = {}
    assumed: list[str] = []
    for spec in specs:
        if spec.name in given:
            shapes[spec.name] = given[spec.name]
            continue
        if spec.shape is None:
            raise Unfeedable(f"input {spec.name} has no known rank; give its shape")
        sizes: list[int] = []
        for axis, (size, symbol) in enumerate(zip(spec.shape, spec.symbols, strict=True)):
            if size is None:
                size = known.get(symbol or "")
                if size is None:
                    size = assume if axis else 1
                    assumed.append(f"{spec.name}[{symbol or axis}] = {size}")
            sizes.append(size)
        shapes[spec.name] = tuple(sizes)
    notices = [f"dynamic sizes were measured at {', '.join(assumed)} (set them with --shape)"] if assumed else []
    return shapes, notices


def _fits(spec: InputSpec, shape: tuple[int, ...]) -> bool:
    if spec.shape is None:
        return True
    return len(shape) == len(spec.shape) and all(s in (None, g) for s, g in zip(spec.shape, shape, strict=True))


def _shown(spec: InputSpec) -> str:
    sizes = zip(spec.shape or (), spec.symbols, strict=True)
    return "x".join(str(size if size is not None else symbol or "?") for size, symbol in sizes)


def feed_candidates(
    specs: Sequence[InputSpec], shapes: Mapping[str, tuple[int, ...]], seed: int, index: int
) -> Iterator[Feeds]:
    """Yield random feeds, one for each bound of integers; the caller uses the first that the model accepts.

    Every value depends on (seed, index, input name) only. Raises Unfeedable for element types that cannot be drawn.
    """
    bounds = _INTEGER_BOUNDS if any(_is_integer(spec.elem_type) for spec in specs) else _INTEGER_BOUNDS[:1]
    for bound in bounds:
        yield {spec.name: _draw(spec, shapes[spec.name], seed, index, bound) for spec in specs}


def with_specials(feeds: Feeds, seed: int) -> Feeds:
    """Return `feeds` with NaN, infinities, -0.0 and a subnormal number at a tenth of the places of each float input."""
    found: Feeds = {}
    for name, array in feeds.items():
        found[name] = array
        if np.issubdtype(array.dtype, np.floating) or array.dtype == np.dtype(ml_dtypes.bfloat16):
            rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
            specials = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40]).astype(array.dtype)
            found[name] = np.where(rng.random(array.shape) < 0.1, rng.choice(specials, array.shape), array)
    return found


def _dtype(elem_type: int) -> np.dtype[np.generic]:
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))


def _is_integer(elem_type: int) -> bool:
    return elem_type != onnx.TensorProto.STRING and np.issubdtype(_dtype(elem_type), np.integer)


def _draw(spec: InputSpec, shape: tuple[int, ...], seed: int, index: int, bound: int | None) -> Array:
    rng = np.random.default_rng([seed, index, zlib.crc32(spec.name.encode())])
    if spec.elem_type == onnx.TensorProto.STRING:
        return np.asarray(rng.choice(np.array(["Monday", "a word", "", "42"], dtype=object), shape))
    dtype = _dtype(spec.elem_type)
    if dtype == np.bool_:
        return np.asarray(rng.integers(0, 2, shape).astype(np.bool_))
    if np.issubdtype(dtype, np.integer):
        return np.asarray(_integers(rng, dtype, shape, bound))
    if np.issubdtype(dtype, np.complexfloating):
        return np.asarray((rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype))
    if np.issubdtype(dtype, np.floating) or dtype == np.dtype(ml_dtypes.bfloat16):
        # Feeds of odd index are uniform in [0, 1): the range of images, and in the domain of Log and Sqrt.
        drawn = rng.random(shape) if index % 2 else rng.standard_normal(shape)
        return np.asarray(drawn, dtype=np.float64).astype(dtype)
    raise Unfeedable(f"input {spec.name} has an element type that cannot be drawn ({dtype})")


def _integers(
    rng: np.random.Generator, dtype: np.dtype[np.generic], shape: tuple[int, ...], bound: int | None
) -> Array:
    # Bytes are quantities (pixels, quantized values), so there the whole range is drawn.
    if dtype in (np.dtype(np.uint8), np.dtype(np.int8)):
        info = np.iinfo(np.dtype(dtype.name))
        return np.asarray(rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype))
    if bound is None:  # all ones, for sizes and repeats that must not be 0
        return np.ones(shape, dtype)
    return np.asarray(rng.integers(0, bound, shape).astype(dtype))
