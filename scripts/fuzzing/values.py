"""Random arrays: of simple numbers, of wide ones, at the edges of their type, or with NaN and infinities."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

__all__ = ["FLOATS", "INTEGERS", "PROFILES", "Array", "draw", "largest"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

FLOATS = ("float32", "float64", "float16")
INTEGERS = ("int64", "int32", "int8", "uint8", "int16", "uint16", "uint32", "uint64")

# How values are drawn. "simple": few numbers, exact in any arithmetic, so that many are equal. "plain": normal numbers
# and small integers. "wide": floats of many magnitudes, integers of the whole type. "edge": integers around powers of
# two, where ONNX Runtime may go through floating point, and at the ends of the type. "special": also NaN, infinities,
# signed zeros, numbers close to overflow and denormal ones.
PROFILES = ("simple", "plain", "wide", "edge", "special")

_SPECIALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-45, 3e38, -6e4, 6e-8, 1e300, 1e-310)
_POWERS = (0, 1, 2, 7, 8, 15, 16, 23, 24, 25, 31, 32, 33, 52, 53, 54, 62, 63, 64)


def draw(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], profile: str) -> Array:
    """Return an array of this element type, shape and profile."""
    if dtype == "bool":
        return np.asarray(rng.random(shape) < rng.choice([0.1, 0.5, 0.9]))
    return _floats(rng, dtype, shape, profile) if dtype in FLOATS else _integers(rng, dtype, shape, profile)


def _floats(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], profile: str) -> Array:
    if profile == "simple":
        return np.asarray(rng.integers(-8, 9, shape) / 4).astype(dtype)
    found = np.asarray(rng.standard_normal(shape))
    if profile == "wide":
        decades = 1.0 if dtype == "float16" else 3.0
        found = found * 10.0 ** rng.uniform(-decades, decades, shape if rng.random() < 0.5 else ())
    if profile in ("wide", "edge") and rng.random() < 0.3:
        found = np.where(rng.random(shape) < 0.3, 0.0, found)
    if profile == "special":
        found = np.where(rng.random(shape) < 0.2, rng.choice(np.array(_SPECIALS), shape), found)
    with np.errstate(over="ignore"):
        return np.asarray(found).astype(dtype)


def _integers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], profile: str) -> Array:
    ends = np.iinfo(dtype)
    if profile in ("simple", "plain"):
        most = 3 if profile == "simple" else 100
        return np.asarray(rng.integers(max(int(ends.min), -most), most, shape, endpoint=True)).astype(dtype)
    if profile == "wide":
        return np.asarray(rng.integers(int(ends.min), int(ends.max), shape, dtype=dtype, endpoint=True))
    near = [sign * 2**power + step for power in _POWERS for sign in (1, -1) for step in (-1, 0, 1)]
    fitting = np.array([n for n in (*near, int(ends.min), int(ends.max)) if ends.min <= n <= ends.max], dtype)
    return np.asarray(rng.choice(fitting, shape))


def largest(a: Array) -> float:
    """Return the largest absolute value of real numbers, 0 without any."""
    with np.errstate(all="ignore"):
        return float(np.max(np.abs(a.astype(float)), initial=0.0)) if a.dtype.kind == "f" else 0.0
