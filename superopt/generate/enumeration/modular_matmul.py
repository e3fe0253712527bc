"""Exact matrix products modulo P, computed by the fast float64 matrix product (BLAS).

A residue has 31 bits. It is split into 15 upper and 16 lower bits. Products of these with residues are below 2^47, and
sums of `_DEPTH` products are below 2^52, so every intermediate result is an integer that float64 holds exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from superopt.evaluate.residues import Array, P

__all__ = ["add", "product", "reduced"]

_DEPTH = 32
_LOW = np.uint64(0xFFFF)
_BITS = np.uint64(16)
_P = np.uint64(P)
_SHIFT = np.uint64(31)


def product(a: Array, b: Array) -> Array:
    """Return `a` [n, k] times `b` [k, m] modulo P, both of residues: [n, m]."""
    total: Array | None = None
    for start in range(0, a.shape[1], _DEPTH):
        left, right = a[:, start : start + _DEPTH], b[start : start + _DEPTH].astype(np.float64)
        high = reduced(((left >> _BITS).astype(np.float64) @ right).astype(np.uint64))
        high <<= _BITS
        high += ((left & _LOW).astype(np.float64) @ right).astype(np.uint64)  # below 2^47 + 2^52
        total = reduced(high) if total is None else add(total, reduced(high))
    return np.zeros((len(a), b.shape[1]), np.uint64) if total is None else total


def reduced(x: Array) -> Array:
    """Reduce numbers below 2^61 modulo P, in place: 2^31 = 1 modulo P, so upper bits are added to the lower ones."""
    upper = x >> _SHIFT
    x &= _P
    x += upper
    return _once(x)


def add(x: Array, y: Array) -> Array:
    """Return the sum of residues; operands broadcast."""
    return _once(x + y)


def _once(x: Array) -> npt.NDArray[np.uint64]:
    """Reduce numbers below 2 P: if x < P, the unsigned x - P wraps around to a huge number, and the minimum is x."""
    result: npt.NDArray[np.uint64] = np.minimum(x, x - _P)
    return result
