"""Integers modulo P = 2^31 - 1 as `uint64` arrays: conversion of real numbers, arithmetic, and an order by sign.

Products of two residues are below 2^62, and every sum is reduced before it can reach 2^64.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "HALF", "P", "Array", "Products", "Shape", "absolute", "added", "inverse", "negative", "power", "random_residues",
    "rank", "reduced", "residue", "scaled", "small_residues", "unrank",
]  # fmt: skip

P = 2**31 - 1
HALF = P // 2  # residues up to it are read as numbers >= 0, those above as negative ones
Array: TypeAlias = npt.NDArray[np.uint64]
Shape: TypeAlias = tuple[int, ...]

_P = np.uint64(P)
_HALF = np.uint64(HALF)
_SHIFT = np.uint64(31)
_FEW = 1 << 9  # arrays up to this size: one modulo operation is faster than several cheap operations
_SMALL_FACTOR = 8  # how many times larger a product is than a factor that is small beside it
_SMALL = 2**28  # sums of four such numbers do not wrap
_DENOMINATOR, _NUMERATOR = 64, 4096  # fractions up to these are read exactly


def residue(value: float | Fraction) -> int:
    """Return a real attribute as a residue.

    Integers and simple fractions p/q (also rounded to float32) are exact, p * q^(P-2). Any other value is a fixed
    pseudo-random residue, and the residue of -x is minus the residue of x.
    """
    number = float(value)
    if number.is_integer():
        return int(number) % P
    simple = Fraction(number).limit_denominator(_DENOMINATOR)
    if abs(simple.numerator) <= _NUMERATOR and number in (float(simple), float(np.float32(simple))):
        return simple.numerator * pow(simple.denominator, -1, P) % P
    bits = int(np.float64(abs(number)).view(np.uint64))
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
    found = (bits ^ (bits >> 31)) % P
    return found if number > 0 else -found % P


def random_residues(rng: np.random.Generator, shape: Shape) -> Array:
    """Return uniformly distributed residues."""
    return rng.integers(0, P, size=shape, dtype=np.uint64)


def small_residues(rng: np.random.Generator, shape: Shape) -> Array:
    """Return uniform numbers from -2^28 to 2^28. Sums of up to four of them have the same sign as in the integers."""
    result: Array = (rng.integers(-_SMALL, _SMALL, size=shape, endpoint=True) % P).astype(np.uint64)
    return result


def reduced(x: Any) -> Any:
    """Return the residues of numbers below 2^62: 2^31 = 1 modulo P, so the upper bits are added to the lower ones."""
    if np.size(x) < _FEW:
        return np.asarray(x % _P)
    lower, upper = x & _P, x >> _SHIFT
    lower += upper
    return _once(lower, upper)


def _once(x: Array, space: Array) -> Array:
    """Reduce numbers up to 2 P, in place of `x`: if x < P, the unsigned x - P is huge, and the minimum is x."""
    np.subtract(x, _P, out=space)
    np.minimum(x, space, out=x)
    return x


class Products:
    """Sums of products of arrays that broadcast to one shape.

    The products are written to the same memory each time: new memory for each took half of a convolution's time.
    """

    def __init__(self, shape: Shape) -> None:
        self._product, self._upper = np.empty(shape, np.uint64), np.empty(shape, np.uint64)

    def add_to(self, total: Array, x: Array, y: Array) -> None:
        """Add x * y to `total`, which grows by less than 2^32 and is to be `reduced` after all products.

        Along the first axis only those are computed where a factor that is small in memory is not 0: most are 0 if one
        operand of a convolution is each unit tensor.
        """
        for small in (x, y):
            if small.ndim == total.ndim and small.size * _SMALL_FACTOR <= total.size and len(small) == len(total):
                rows = np.flatnonzero(small.reshape(len(small), -1).any(axis=1))
                if 2 * len(rows) < len(total):
                    part = total[rows]
                    self._add(part, *(one[rows] if len(one) == len(total) else one for one in (x, y)))
                    total[rows] = part
                    return
        self._add(total, x, y)

    def _add(self, total: Array, x: Array, y: Array) -> None:
        product, upper = self._product[: len(total)], self._upper[: len(total)]
        np.multiply(x, y, out=product)
        if product.size < _FEW:
            product %= _P
        else:
            np.right_shift(product, _SHIFT, out=upper)
            product &= _P
            total += upper
        total += product


def added(x: Any, y: Any) -> Any:
    """Return x + y."""
    total = x + y
    return np.asarray(total % _P) if np.size(total) < _FEW else _once(total, np.empty_like(total))


def negative(x: Array) -> Array:
    """Return -x."""
    result: Array = reduced(_P - x)
    return result


def absolute(x: Array) -> Array:
    """Return |x| of the signed number."""
    result: Array = np.minimum(x, _P - x)
    return result


def scaled(x: Array, factor: int) -> Array:
    """Return x times a residue."""
    return x if factor == 1 else np.asarray(reduced(x * np.uint64(factor)))


def power(x: Array, exponent: int) -> Array:
    """Return x^exponent, for exponent >= 1, by squaring."""
    result = x
    for bit in bin(exponent)[3:]:
        result = reduced(result * result)
        if bit == "1":
            result = reduced(result * x)
    return result


def inverse(x: Array) -> Array:
    """Return 1/x, and 0 for x = 0.

    Elements are inverted in pairs: 1/a = b * 1/(ab) and 1/b = a * 1/(ab). This halves the array until few are left.
    """
    flat = np.ascontiguousarray(x).reshape(-1)
    found = _inverse(np.where(flat == 0, np.uint64(1), flat))
    found[flat == 0] = 0
    return found.reshape(x.shape)


def _inverse(x: Array) -> Array:
    if len(x) < 16:
        return power(x, P - 2)  # Fermat's little theorem
    half = len(x) // 2
    a, b, rest = x[:half], x[half : 2 * half], x[2 * half :]
    both = _inverse(np.concatenate([a * b % _P, rest]))
    return np.concatenate([both[:half] * b % _P, both[:half] * a % _P, both[half:]])


def rank(x: Array) -> Array:
    """Return the position of x among all residues in the order of signed numbers, counted from 0."""
    result: Array = added(x, _HALF)
    return result


def unrank(place: Array) -> Array:
    """Return the residue at a position in the order of signed numbers: the inverse of `rank`."""
    result: Array = added(place, _P - _HALF)
    return result
