"""Random inputs that a model accepts, reproducible by seed.

Floats are normal or uniform. Integers are more often indices, token numbers or masks than quantities, so 0 and 1 are
tried first: they are valid for Gather and for attention masks of any size. The first draw that the model accepts is
used.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray

from superopt.runtime.shapes import InputShapes, InputSpec, Unfeedable

__all__ = ["Array", "Feeds", "feed_candidates", "with_specials"]

Array: TypeAlias = NDArray[np.generic]
Feeds: TypeAlias = dict[str, Array]

# Exclusive upper bounds of drawn integers, in the order of trial (None: all ones).
_INTEGER_BOUNDS: tuple[int | None, ...] = (2, 1, None, 8)
# Elements of one input: 512 MiB while they are drawn as float64.
_MAX_ELEMENTS = 1 << 26


def feed_candidates(specs: Sequence[InputSpec], shapes: InputShapes, seed: int, index: int) -> Iterator[Feeds]:
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
    if math.prod(shape) > _MAX_ELEMENTS:
        raise Unfeedable(
            f"input {spec.name} of shape {'x'.join(map(str, shape))} has more than the {_MAX_ELEMENTS:,} elements that"
            " can be drawn; give smaller sizes (--shape), after making them free in the model if they are fixed"
        )
    rng = np.random.default_rng([seed, index, zlib.crc32(spec.name.encode())])
    if spec.elem_type == onnx.TensorProto.STRING:
        return np.asarray(rng.choice(np.array(["Monday", "a word", "", "42"], dtype=object), shape))
    dtype = _dtype(spec.elem_type)
    if dtype == np.bool_:  # feeds of odd index are the opposite of those before: each branch of an If is taken
        rng = np.random.default_rng([seed, index // 2, zlib.crc32(spec.name.encode())])
        return np.asarray(rng.integers(0, 2, shape).astype(np.bool_) ^ bool(index % 2))
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
