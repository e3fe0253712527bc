"""Rounding to the real element types: infinity beyond the largest number of a type."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping

__all__ = ["ROUNDINGS"]


def _double(x: float) -> float:
    try:
        return float(x)  # rounds integers with more than 53 bits
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _packed(code: str) -> Callable[[float], float]:
    """Return the rounding by `struct`'s format `code`."""

    def rounded(x: float) -> float:
        x = _double(x)  # `struct` reports large integers in another way than large floats
        try:
            return float(struct.unpack(code, struct.pack(code, x))[0])
        except OverflowError:
            return math.copysign(math.inf, x)

    return rounded


# The rounding functions by their names in definitions.
ROUNDINGS: Mapping[str, Callable[[float], float]] = {
    "to_float16": _packed("<e"),
    "to_float": _packed("<f"),
    "to_double": _double,
}
