"""Integers modulo P = 2^31 - 1 as `uint64` arrays: reading numbers into the field, products, inverses, signed order.

Products of two residues are below 2^62, and every sum is reduced before it could reach 2^64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "HALF", "P", "Array", "Attrs", "Kernel", "Shape", "aligned", "inverse", "lead", "lift", "maximum", "minimum",
    "negative", "per_last", "place_of", "power", "random_residues", "rank", "residue", "scaled", "small_residues",
    "unrank",
]  # fmt: skip

P = 2**31 - 1
HALF = P // 2  # residues up to it are read as numbers >= 0, those above as negative ones
Array: TypeAlias = npt.NDArray[np.uint64]
Shape: TypeAlias = tuple[int, ...]
Attrs: TypeAlias = Mapping[str, Any]
Kernel: TypeAlias = Callable[[Sequence[Array], Sequence[Shape], Attrs, Shape], Array]

_P = np.uint64(P)
_HALF = np.uint64(HALF)
_SMALL = 2**28  # sums of four such numbers do not wrap
_DENOMINATOR, _NUMERATOR = 64, 4096  # fractions up to these are read exactly


def residue(number: float) -> int:
    """A real attribute as a residue: integers and simple fractions p/q (also rounded to float32) exactly, as
    p * q^(P-2); any other value as a fixed pseudo-random residue, that of -x being minus that of x."""
    if float(number).is_integer():
        return int(number) % P
    simple = Fraction(number).limit_denominator(_DENOMINATOR)
    if abs(simple.numerator) <= _NUMERATOR and float(number) in (float(simple), float(np.float32(simple))):
        return simple.numerator * pow(simple.denominator, -1, P) % P
    bits = int(np.float64(abs(number)).view(np.uint64))
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB % 2**64
    found = (bits ^ (bits >> 31)) % P
    return found if number > 0 else -found % P


def random_residues(rng: np.random.Generator, shape: Shape) -> Array:
    """Uniform residues."""
    return rng.integers(0, P, size=shape, dtype=np.uint64)


def small_residues(rng: np.random.Generator, shape: Shape) -> Array:
    """Uniform numbers from -2^28 to 2^28: sums of up to four of them have the sign that they have in the integers."""
    result: Array = (rng.integers(-_SMALL, _SMALL, size=shape, endpoint=True) % P).astype(np.uint64)
    return result


def negative(x: Array) -> Array:
    """-x."""
    result: Array = (_P - x) % _P
    return result


def scaled(x: Array, factor: int) -> Array:
    """x times a residue."""
    return x if factor == 1 else x * np.uint64(factor) % _P


def power(x: Array, exponent: int) -> Array:
    """x^exponent, for exponent >= 1, by squaring."""
    result = x
    for bit in bin(exponent)[3:]:
        result = result * result % _P
        if bit == "1":
            result = result * x % _P
    return result


def inverse(x: Array) -> Array:
    """1/x, and 0 for 0.

    Of two numbers at once: 1/a = b * 1/(ab), so that halves of the array share their inversions down to a few.
    """
    flat = np.ascontiguousarray(x).reshape(-1)
    found = _inverse(np.where(flat == 0, np.uint64(1), flat))
    found[flat == 0] = 0
    return found.reshape(x.shape)


def _inverse(x: Array) -> Array:
    if len(x) < 16:
        return power(x, P - 2)  # Fermat
    half = len(x) // 2
    a, b, rest = x[:half], x[half : 2 * half], x[2 * half :]
    both = _inverse(np.concatenate([a * b % _P, rest]))
    return np.concatenate([both[:half] * b % _P, both[:half] * a % _P, both[half:]])


def rank(x: Array) -> Array:
    """The place of x among all residues in the order of signed numbers, from 0."""
    result: Array = (x + _HALF) % _P
    return result


def unrank(place: Array) -> Array:
    """The residue at a place of the order of signed numbers."""
    result: Array = (place + (_P - _HALF)) % _P
    return result


def maximum(*xs: Array) -> Array:
    """The largest, element by element, in the order of signed numbers."""
    best = rank(xs[0])
    for x in xs[1:]:
        best = np.maximum(best, rank(x))
    return unrank(best)


def minimum(*xs: Array) -> Array:
    """The smallest, element by element, in the order of signed numbers."""
    best = rank(xs[0])
    for x in xs[1:]:
        best = np.minimum(best, rank(x))
    return unrank(best)


def lift(x: Array, shape: Shape, rank: int) -> Array:
    """`x` with its tensor axes padded on the left by axes of size 1, to `rank` of them."""
    if len(shape) == rank:
        return x
    stacked = x.shape[: x.ndim - len(shape)]
    return x.reshape(stacked + (1,) * (rank - len(shape)) + shape)


def aligned(xs: Sequence[Array], shapes: Sequence[Shape], out: Shape) -> list[Array]:
    """Operands lifted to the rank of the result."""
    return [lift(x, shape, len(out)) for x, shape in zip(xs, shapes, strict=True)]


def lead(xs: Sequence[Array], shapes: Sequence[Shape]) -> Shape:
    """The stacked axes of all operands, broadcast."""
    return np.broadcast_shapes(*(x.shape[: x.ndim - len(s)] for x, s in zip(xs, shapes, strict=True)))


def place_of(axis: int, rank: int) -> int:
    """An axis of a tensor counted from the end, which is where the tensor's axes are in a stack."""
    return axis % rank - rank


def per_last(x: Array, axes: int) -> Array:
    """A stack of vectors with `axes` axes of size 1 appended, so that a vector runs along an earlier axis."""
    return x.reshape(x.shape + (1,) * axes)
