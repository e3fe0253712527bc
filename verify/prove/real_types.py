"""Rounding to real element types: which number of the type stands for a number."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping

__all__ = ["ROUNDINGS"]


def _packed(code: str) -> Callable[[float], float]:
    """Rounding by `struct`'s format of that code; infinity beyond the largest number of the type."""

    def rounded(x: float) -> float:
        try:
            return float(struct.unpack(code, struct.pack(code, x))[0])
        except OverflowError:
            return math.copysign(math.inf, x)

    return rounded


# The functions that definitions call by these names.
ROUNDINGS: Mapping[str, Callable[[float], float]] = {
    "to_float16": _packed("<e"),
    "to_float": _packed("<f"),
    "to_double": float,  # of integers with more than 53 bits
}
