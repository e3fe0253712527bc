"""Functions of one number modulo P: exp, log, sqrt, powers, rounding, and random increasing functions such as tanh.

Exp is a power of a primitive root and Log the discrete logarithm, so that Exp and Log are inverse to each other and
Exp(x + y) = Exp(x) * Exp(y) where the sum does not wrap. Sqrt is the power with exponent (P + 1) / 4: it is a square
root of every square, up to sign, and Sqrt(x * y) = Sqrt(x) * Sqrt(y). Sigmoid, Tanh, Erf and the curve of HardSigmoid
are random increasing functions with the same symmetries; no other equations hold for them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

from superopt.evaluate.residues import HALF, Array, P, inverse, negative, power, rank, scaled

__all__ = ["FUNCTIONS", "PRIMITIVE_ROOT", "below_zero", "exp", "hard", "log", "pseudo_random"]

PRIMITIVE_ROOT = 7
_P = np.uint64(P)
_HALF = np.uint64(HALF)
_ORDER = P - 1  # 2 * 3^2 * 7 * 11 * 31 * 151 * 331
_PARTS = (2 * 9 * 7 * 11 * 31, 151 * 331)  # coprime; their product is the order
_UNIT = 3  # floor and round read the residue k as the number k / 3; odd, so that no number is halfway between integers
_HALVES = 64  # largest n for which x^y reads y as the fraction n/2
_BLOCK, _TAIL = 16, 12  # low bits of an argument that do not affect the order, and random bits that replace them


def pseudo_random(x: Array, name: str) -> Array:
    """Return a fixed pseudo-random function of `x`, a different one for each name (the finaliser of splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15 * (zlib.crc32(name.encode()) + 1) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: Array = (x ^ (x >> np.uint64(31))) % _P
    return result


@cache
def _steps(name: str) -> Array:
    """Return a random strictly increasing table of numbers below 2^16."""
    blocks = np.arange(1 << (31 - _BLOCK), dtype=np.uint64)
    more: Array = np.cumsum(pseudo_random(blocks, name) & np.uint64(1), dtype=np.uint64)
    return blocks + more


def _increasing(place: Array, name: str) -> Array:
    """Return a random function from 0 ... P to 1 ... 2^28, increasing for arguments that differ by 2^16 or more.

    For closer arguments it is pseudo-random, so that x and x + 1 have different values.
    """
    tail = pseudo_random(place, name) & np.uint64((1 << _TAIL) - 1)
    result: Array = (_steps(name)[place >> np.uint64(_BLOCK)] << np.uint64(_TAIL)) + tail + np.uint64(1)
    return result


def _odd(x: Array, name: str) -> Array:
    """Return a random increasing function with f(-x) = -f(x)."""
    below = x > _HALF
    found = _increasing(np.where(below, _P - x, x) << np.uint64(1), name)
    return np.where(x == 0, np.uint64(0), np.where(below, _P - found, found))


def tanh(x: Array) -> Array:
    """Return a random increasing and odd function, in place of tanh."""
    return _odd(x, "Tanh")


def erf(x: Array) -> Array:
    """Return a random increasing and odd function, in place of erf."""
    return _odd(x, "Erf")


def _sin(x: Array) -> Array:
    """Return a pseudo-random function with f(-x) = -f(x), in place of sin."""
    below = x > _HALF
    found = pseudo_random(np.where(below, _P - x, x), "Sin")
    return np.where(x == 0, np.uint64(0), np.where(below, negative(found), found))


def _cos(x: Array) -> Array:
    """Return a pseudo-random function with f(-x) = f(x) and f(0) = 1, in place of cos."""
    return np.where(x == 0, np.uint64(1), pseudo_random(np.minimum(x, _P - x), "Cos"))


def sigmoid(x: Array) -> Array:
    """Return a random increasing function with sigmoid(-x) = 1 - sigmoid(x).

    It is (f(x) + 1) / 2 for an increasing and odd function f with odd values 2k + 1, so that the result is a whole
    signed number.
    """
    found = _odd(x, "Sigmoid")
    result: Array = np.where(x > _HALF, (found + np.uint64(1)) % _P, found)
    result[x == 0] = (P + 1) // 2
    return result


def hard(x: Array) -> Array:
    """Return a random increasing and positive function, in place of min(1, max(0, x)).

    The exact function has only two values on nearly all samples, which would not tell graphs apart.
    """
    return _increasing(rank(x), "HardSigmoid")


def sqrt(x: Array) -> Array:
    """Return x^((P + 1) / 4), whose square is x or -x."""
    return power(x, (P + 1) // 4)


@cache
def _powers() -> tuple[Array, Array]:
    """Return tables of g^k and g^(2^16 * k) for k below 2^16."""
    return _table(PRIMITIVE_ROOT, 1 << 16), _table(pow(PRIMITIVE_ROOT, 1 << 16, P), 1 << 16)


def _table(base: int, count: int) -> Array:
    """Return base^k for k below `count`."""
    powers = np.ones(1, dtype=np.uint64)
    while len(powers) < count:
        powers = np.concatenate([powers, powers * np.uint64(pow(base, len(powers), P)) % _P])
    return powers[:count]


def exp(x: Array) -> Array:
    """Return g^x for the signed number x; g^-1 is the inverse of g."""
    exponent = x - (x > _HALF)  # x - P is x - 1 modulo P - 1
    low, high = _powers()
    result: Array = high[exponent >> np.uint64(16)] * low[exponent & np.uint64(0xFFFF)] % _P
    return result


@cache
def _logarithms(order: int) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the elements of the subgroup of this order, sorted, and their logarithms to base g^((P - 1) / order)."""
    elements = _table(pow(PRIMITIVE_ROOT, _ORDER // order, P), order)
    places = np.argsort(elements)
    return elements[places], places


def log(x: Array) -> Array:
    """Return the signed number e with g^e = x, by Pohlig and Hellman: e modulo two coprime parts of P - 1.

    The logarithm of 0 is an arbitrary number.

    S. Pohlig, M. Hellman, "An improved algorithm for computing logarithms over GF(p)", 1978.
    """
    remainders = []
    for order in _PARTS:
        elements, logarithms = _logarithms(order)
        found = np.searchsorted(elements, power(x, _ORDER // order))
        remainders.append(logarithms[np.minimum(found, order - 1)])
    (first, second), (a, b) = _PARTS, remainders
    exponent = (a + first * ((b - a) * pow(first, -1, second) % second)).astype(np.uint64)
    return np.where(exponent > _HALF, exponent + np.uint64(1), exponent)


def below_zero(x: Array, name: str) -> Array:
    """Return a pseudo-random function with negative values, none below -2^28."""
    return negative(pseudo_random(x, name) >> np.uint64(3))


def _signed(x: Array) -> npt.NDArray[np.int64]:
    """Return residues as signed numbers between -P/2 and P/2."""
    whole = x.astype(np.int64)
    return np.where(x > HALF, whole - P, whole)


def _floor(x: Array) -> Array:
    return ((_signed(x) // _UNIT * _UNIT) % P).astype(np.uint64)


def _round(x: Array) -> Array:
    return (((_signed(x) + _UNIT // 2) // _UNIT * _UNIT) % P).astype(np.uint64)


def _integer_power(x: Array, exponent: npt.NDArray[np.int64]) -> Array:
    """Return x^exponent by squaring; negative exponents use the inverse of x, and x^0 = 1."""
    base = np.where(exponent < 0, inverse(x), x) if (exponent < 0).any() else x
    left = np.abs(exponent)
    result = np.ones(np.broadcast_shapes(x.shape, exponent.shape), dtype=np.uint64)
    while left.any():
        result = np.where(left & 1, result * base % _P, result)
        left = left >> 1
        base = base * base % _P
    return result


def _power(x: Array, y: Array) -> Array:
    """Return x^y for whole y, x^((n - 1) / 2) * sqrt(x) for y = n/2 with small odd n. Other y are read as integers."""
    twice = _signed(scaled(y, 2))
    halved = (np.abs(twice) <= _HALVES) & (twice % 2 == 1)
    if not halved.any():
        return _integer_power(x, _signed(y))
    rest = _integer_power(x, np.abs(twice) // 2) * sqrt(x) % _P
    rooted = np.where(twice < 0, inverse(rest), rest)
    return np.where(halved, rooted, _integer_power(x, np.where(halved, 0, _signed(y))))


def _real_remainder(x: Array, y: Array) -> Array:
    """Return a pseudo-random function in place of the remainder: no law of it is looked for."""
    return pseudo_random(x * np.uint64(2) ** np.uint64(31) + y, "Mod")


def _interpolation_weight(n: Array, d: Array, tap: Array) -> Array:
    """Return r/d for tap 1 and 1 - r/d for tap 0, with r the remainder of n by d. Exact: n and d are small integers."""
    above = (_signed(n) % np.asarray(d).astype(np.int64)).astype(np.uint64) * inverse(np.asarray(d)) % _P
    return np.where(tap == 1, above, (1 + _P - above) % _P)


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "sqrt": sqrt,
    "exp": exp,
    "log": log,
    "power": _power,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "erf": erf,
    "sin": _sin,
    "cos": _cos,
    "floor": _floor,
    "round": _round,
    "real_remainder": _real_remainder,
    **{f"saturate_to_{dtype}": lambda x: x for dtype in ("int8", "uint8", "int16", "uint16")},  # in their range
    "interpolation_weight": _interpolation_weight,
}
