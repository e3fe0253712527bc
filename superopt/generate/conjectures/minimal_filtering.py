"""Conjectures for Winograd convolution (minimal filtering): Conv with fewer multiplications, by interpolation.

A tile of m outputs of a filter of r taps is, up to the order of its coefficients, a product of polynomials. The product
is determined by its values at t = m + r - 1 points (Toom 1963, Cook 1966; Winograd, "Arithmetic Complexity of
Computations", 1980; for two axes and channels: Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR
2016):

    y[a] = sum over k of A[k, a] * (sum over j of B[k, j] * x[a' + j]) * (sum over u of G[k, u] * w[u]) / d

With p_0, ..., p_(t-2) and infinity as points, A[k, a] = p_k^a, G[k, u] = d * p_k^u / prod over l != k of (p_k - p_l),
and B[k] are the coefficients of the polynomial whose roots are the other points. The points are integers and halves,
and d is the odd number that makes integers divided by powers of 2 of all numbers: floating point holds them exactly.

For two axes, each matrix is an outer product of two, and every multiplication becomes a product over channels: one of
t * t groups of a 1 x 1 Conv. The transforms are the same for all channels. So each is a Conv or ConvTranspose of one
channel, with the channels as further images. (As one of a volume, whose first axis is that of the channels, it would
need no Transpose, but ONNX Runtime's kernels for volumes are slower: with them a Conv of 256 channels gained nothing,
and gains 1.3 to 2 so.) As for every other conjecture, fingerprints and the prover decide if it holds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.grammar import Family
from superopt.ir.notation import parse_rule
from superopt.ir.rule import Rule, Signature
from superopt.rulebook.variadic import Schema

__all__ = ["FilteringMatrices", "filtering_conjectures", "minimal_filtering"]

# Rounding errors grow with the powers of the points and of their reciprocals: with 0, 1, -1, 2 and -1/2, the mean
# square of those of a tile of 4 x 4 is 0.4 times that with 0, 1, -1, 2 and -2.
_POINTS = (Fraction(0), Fraction(1), Fraction(-1), Fraction(2), Fraction(-1, 2), Fraction(-2), Fraction(1, 2))

Matrix: TypeAlias = tuple[tuple[Fraction, ...], ...]


@dataclass(frozen=True)
class FilteringMatrices:
    """The matrices for one axis: `outputs` is A [t][m], `inputs` B [t][t], `filters` G [t][r]; `divisor` is d."""

    outputs: Matrix
    inputs: Matrix
    filters: Matrix
    divisor: int


def minimal_filtering(m: int, r: int) -> FilteringMatrices:
    """Return the matrices for m outputs of a filter of r taps by m + r - 1 multiplications.

    Raises ValueError for more than 8 multiplications.
    """
    points = _POINTS[: m + r - 2]
    if len(points) < m + r - 2:
        raise ValueError(f"{m} outputs of {r} taps: too many points")
    scales = [math.prod((p - q for q in points if q != p), start=Fraction(1)) for p in points]
    filters = [[p**u / s for u in range(r)] for p, s in zip(points, scales, strict=True)] + [_last(r)]
    divisor = math.lcm(*(_odd_part(value.denominator) for row in filters for value in row))
    outputs = [[p**a for a in range(m)] for p in points] + [_last(m)]
    inputs = [_polynomial([q for q in points if q != p], m + r - 1) for p in points] + [_polynomial(points, m + r - 1)]
    scaled = [[divisor * value for value in row] for row in filters]
    return FilteringMatrices(_dyadic(outputs), _dyadic(inputs), _dyadic(scaled), divisor)


def _odd_part(n: int) -> int:
    return n // (n & -n)


def _last(count: int) -> list[Fraction]:
    """Return the row for the point at infinity, where the value of a polynomial is its leading coefficient."""
    return [Fraction(0)] * (count - 1) + [Fraction(1)]


def _polynomial(roots: Sequence[Fraction], count: int) -> list[Fraction]:
    """Return the coefficients of the product of (x - root), lowest first, padded to `count`."""
    found = [Fraction(1)]
    for root in roots:
        found = [a - root * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found + [Fraction(0)] * (count - len(found))


def _dyadic(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    assert all(_odd_part(value.denominator) == 1 for row in rows for value in row)
    return tuple(map(tuple, rows))


def filtering_conjectures(family: Family) -> Iterator[tuple[Schema, GroundEquation]]:
    """Yield the conjectures for each tile of a family, for a Conv with a bias and for one without.

    Each comes with its instance at the shapes of the family's variables x, w and b.
    """
    if not family.tiles:
        return
    shape = {v.name: v.shape for v in family.variables}
    ranks = {"b": (None,), "w": (None, None, *shape["w"][2:]), "x": (None,) * 4}
    for tile, names in itertools.product(family.tiles, ("bwx", "wx")):
        rule = _conv(tile, shape["w"][2:], has_bias="b" in names)
        signature = Signature(tuple((name, ranks[name]) for name in names), (("p", (None,) * 4),))
        instance = Signature(tuple((name, shape[name]) for name in names), (("p", (1,) * 4),))
        yield Schema(rule, signature, signature, {"p": "pads"}), GroundEquation(*rule.instantiate(instance), family)


def _conv(tile: tuple[int, ...], kernel: Sequence[int], *, has_bias: bool) -> Rule:
    """Return the rule that computes a Conv of stride 1 by tiles, and cuts off surplus outputs."""
    axes = [minimal_filtering(m, r) for m, r in zip(tile, kernel, strict=True)]
    count = math.prod(len(axis.inputs) for axis in axes)
    sizes = [f"p[{d}] + p[{d + 2}] + x.shape[{d + 2}] - {r - 1}" for d, r in enumerate(kernel)]
    tiles = [f"(({size} + {m - 1}) // ({m}))" for size, m in zip(sizes, tile, strict=True)]
    shape = ", ".join(tiles)
    products = (
        f"Conv[dilations=[1, 1], group={count}, pads=[0, 0, 0, 0], strides=[1, 1]]"
        f"({_values(axes, tile, kernel, tiles)}, {_weights(axes, kernel)}{', ' + _bias(axes) if has_bias else ''})"
    )
    sums = (
        f"ConvTranspose[dilations=[1, 1], group=1, output_padding=[0, 0], pads=[0, 0, 0, 0], "
        f"strides=[{tile[0]}, {tile[1]}]]"
        f"(Reshape[allowzero=0, shape=[x.shape[0]*w.shape[0], {count}, {shape}]](Transpose[perm=[0, 2, 1, 3, 4]]"
        f"(Reshape[allowzero=0, shape=[x.shape[0], {count}, w.shape[0], {shape}]]({products}))), "
        f"{_kernels([axis.outputs for axis in axes])})"
    )
    ends = ", ".join(f"{m}*{n}" for m, n in zip(tile, tiles, strict=True))
    return parse_rule(
        f"Conv[dilations=[1, 1], group=1, pads=p, strides=[1, 1]](x, w{', b' if has_bias else ''}) = "
        f"Slice[axes=[2, 3], ends=[{', '.join(sizes)}], starts=[0, 0], steps=[1, 1]]"
        f"(Reshape[allowzero=0, shape=[x.shape[0], w.shape[0], {ends}]]({sums}))"
    )


def _values(axes: Sequence[FilteringMatrices], tile: Sequence[int], kernel: Sequence[int], tiles: Sequence[str]) -> str:
    """Return an expression for the transform of x, of shape [N, t * t * C, tiles...]."""
    count, shape = math.prod(len(axis.inputs) for axis in axes), ", ".join(tiles)
    ends = ", ".join(
        f"{m}*{n} + {r - 1} - p[{d}] - x.shape[{d + 2}]"
        for d, (m, n, r) in enumerate(zip(tile, tiles, kernel, strict=True))
    )
    images = "Reshape[allowzero=0, shape=[x.shape[0]*x.shape[1], 1, x.shape[2], x.shape[3]]](x)"
    moved = (
        f"Conv[dilations=[1, 1], group=1, pads=[p[0], p[1], {ends}], strides=[{tile[0]}, {tile[1]}]]"
        f"({images}, {_kernels([axis.inputs for axis in axes])})"
    )
    return (
        f"Reshape[allowzero=0, shape=[x.shape[0], {count}*x.shape[1], {shape}]](Transpose[perm=[0, 2, 1, 3, 4]]"
        f"(Reshape[allowzero=0, shape=[x.shape[0], x.shape[1], {count}, {shape}]]({moved})))"
    )


def _weights(axes: Sequence[FilteringMatrices], kernel: Sequence[int]) -> str:
    """Return an expression for the transform of w, of shape [t * t * O, C, 1, 1]."""
    count, divisor = math.prod(len(axis.inputs) for axis in axes), math.prod(axis.divisor for axis in axes)
    images = f"Reshape[allowzero=0, shape=[w.shape[0]*w.shape[1], 1, {kernel[0]}, {kernel[1]}]](w)"
    moved = (
        f"Div(Conv[dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]]"
        f"({images}, {_kernels([axis.filters for axis in axes])}), ConstantOfShape[shape=[], value={divisor}.0])"
    )
    return (
        f"Reshape[allowzero=0, shape=[{count}*w.shape[0], w.shape[1], 1, 1]](Transpose[perm=[2, 0, 1]]"
        f"(Reshape[allowzero=0, shape=[w.shape[0], w.shape[1], {count}]]({moved})))"
    )


def _bias(axes: Sequence[FilteringMatrices]) -> str:
    """Return an expression for b at the product of point 1 along both axes: each output contains it with factor 1."""
    at_one = ([float(k == _POINTS.index(Fraction(1))) for k in range(len(axis.inputs))] for axis in axes)
    ones = [a * b for a, b in itertools.product(*at_one)]
    return (
        f"Reshape[allowzero=0, shape=[{len(ones)}*w.shape[0]]]"
        f"(Mul(Constant[shape=[{len(ones)}, 1], value_floats=[{', '.join(map(str, ones))}]], b))"
    )


def _kernels(matrices: Sequence[Matrix]) -> str:
    """Return an expression for the outer products of all pairs of rows, as kernels of one channel [k * l, 1, a, b]."""
    (rows, columns), (more_rows, more_columns) = ((len(matrix), len(matrix[0])) for matrix in matrices)
    first, second = (", ".join(str(float(value)) for row in matrix for value in row) for matrix in matrices)
    return (
        f"Reshape[allowzero=0, shape=[{rows * more_rows}, 1, {columns}, {more_columns}]]("
        f"Mul(Constant[shape=[{rows}, 1, {columns}, 1], value_floats=[{first}]], "
        f"Constant[shape=[1, {more_rows}, 1, {more_columns}], value_floats=[{second}]]))"
    )
