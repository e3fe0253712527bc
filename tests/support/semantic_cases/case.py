"""A random use of an operator: attributes in canonical form, and inputs."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Array", "Case", "Maker", "broadcast_to", "case", "shape_of", "values"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Case:
    """`arrays` has None where an optional input is absent; `oracles` says who is asked, `opset` in which version."""

    attrs: dict[str, Any]
    arrays: Sequence[Array | None]
    oracles: tuple[str, ...] = ("onnxruntime", "reference")
    opset: int = 17
    tolerance: float = 2e-5  # relative and absolute, for real results


Maker: TypeAlias = Callable[[random.Random], Case]


def shape_of(rng: random.Random, low: int = 0, high: int = 4) -> tuple[int, ...]:
    """A shape of `low` to `high` axes."""
    return tuple(rng.randint(1, 4) for _ in range(rng.randint(low, high)))


def broadcast_to(rng: random.Random, full: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `full`."""
    kept = full[rng.randint(0, len(full)) :]
    return tuple(1 if rng.random() < 0.3 else n for n in kept)


def values(rng: random.Random, shape: Sequence[int], dtype: str = "float32", low: float = -2, high: float = 2) -> Array:
    """Random values: real ones from [low, high), integers from low to high, truth values."""
    draw = np.random.default_rng(rng.randrange(1 << 32))
    if dtype == "bool":
        return np.asarray(draw.integers(0, 2, tuple(shape)).astype(bool))
    if np.dtype(dtype).kind in "iu":
        return np.asarray(draw.integers(int(low), int(high) + 1, tuple(shape)).astype(dtype))
    return np.asarray(draw.uniform(low, high, tuple(shape)).astype(dtype))


def case(rng: random.Random, attrs: dict[str, Any], shapes: Sequence[tuple[int, ...]]) -> Case:
    """A case with real inputs of these shapes."""
    return Case(attrs, [values(rng, shape) for shape in shapes])
