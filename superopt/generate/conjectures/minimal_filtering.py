"""Conjectures for Winograd convolution (minimal filtering): Conv with fewer multiplications, by interpolation.

A tile of m outputs of a filter of r taps is, up to the order of its coefficients, a product of polynomials. The product
is determined by its values at t = m + r - 1 points (Toom 1963, Cook 1966; Winograd, "Arithmetic Complexity of
Computations", 1980; for two axes and channels: Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR
2016):

    y[a] = sum over k of A[k, a] * (sum over j of B[k, j] * x[a' + j]) * (sum over u of G[k, u] * w[u]) / d

With p_0, ..., p_(t-2) and infinity as points, A[k, a] = p_k^a, G[k, u] = d * p_k^u / prod over l != k of (p_k - p_l),
and B[k] are the coefficients of the polynomial whose roots are the other points. The factor d makes all of them
integers.

For two axes, each matrix is an outer product of two, and every multiplication becomes a product over channels: one of
t * t groups of a 1 x 1 Conv. The transforms are the same for all channels. So each is a Conv of one channel with three
spatial axes; its first spatial axis is the channel axis of x. As for every other conjecture, fingerprints and the
prover decide if it holds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.grammar import Family
from superopt.ir.notation import parse_rule
from superopt.ir.rule import Rule, Signature
from superopt.rulebook.variadic import Schema

__all__ = ["FilteringMatrices", "filtering_conjectures", "minimal_filtering"]

_POINTS = (0, 1, -1, 2, -2, 3, -3)  # small points, because rounding errors grow with the powers of the points


@dataclass(frozen=True)
class FilteringMatrices:
    """The matrices for one axis: `outputs` is A [t][m], `inputs` B [t][t], `filters` G [t][r]; `divisor` is d."""

    outputs: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[int, ...], ...]
    filters: tuple[tuple[int, ...], ...]
    divisor: int


def minimal_filtering(m: int, r: int) -> FilteringMatrices:
    """Return the matrices for m outputs of a filter of r taps by m + r - 1 multiplications.

    Raises ValueError for more than 8 multiplications.
    """
    points = [Fraction(p) for p in _POINTS[: m + r - 2]]
    if len(points) < m + r - 2:
        raise ValueError(f"{m} outputs of {r} taps: too many points")
    scales = [math.prod((p - q for q in points if q != p), start=Fraction(1)) for p in points]
    divisor = math.lcm(*(int(scale) for scale in scales))
    outputs = [[p**a for a in range(m)] for p in points] + [_last(m)]
    filters = [[divisor * p**u / s for u in range(r)] for p, s in zip(points, scales, strict=True)]
    inputs = [_polynomial([q for q in points if q != p], m + r - 1) for p in points] + [_polynomial(points, m + r - 1)]
    return FilteringMatrices(_integers(outputs), _integers(inputs), _integers([*filters, _last(r, divisor)]), divisor)


def _last(count: int, value: int = 1) -> list[Fraction]:
    """Return the row for the point at infinity, where the value of a polynomial is its leading coefficient."""
    return [Fraction(0)] * (count - 1) + [Fraction(value)]


def _polynomial(roots: Sequence[Fraction], count: int) -> list[Fraction]:
    """Return the coefficients of the product of (x - root), lowest first, padded to `count`."""
    found = [Fraction(1)]
    for root in roots:
        found = [a - root * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found + [Fraction(0)] * (count - len(found))


def _integers(rows: Sequence[Sequence[Fraction]]) -> tuple[tuple[int, ...], ...]:
    assert all(value.denominator == 1 for row in rows for value in row)
    return tuple(tuple(int(value) for value in row) for row in rows)


def filtering_conjectures(family: Family) -> Iterator[tuple[Schema, GroundEquation]]:
    """Yield the conjecture for each tile of a family, and its instance at the shapes of the variables x, w and b."""
    shape = {v.name: v.shape for v in family.variables}
    for tile in family.tiles:
        kernels = shape["w"][2:]
        rule = _conv(tile, kernels)
        shapes = (("b", (None,)), ("w", (None, None, *kernels)), ("x", (None,) * 4))
        signature = Signature(shapes, (("p", (None,) * 4),))
        instance = Signature(tuple(sorted((v.name, v.shape) for v in family.variables)), (("p", (1,) * 4),))
        yield Schema(rule, signature, signature, {"p": "pads"}), GroundEquation(*rule.instantiate(instance), family)


def _conv(tile: tuple[int, ...], kernel: Sequence[int]) -> Rule:
    """Return the rule that computes a Conv of stride 1 by tiles and cuts off surplus outputs of the last tiles."""
    axes = [minimal_filtering(m, r) for m, r in zip(tile, kernel, strict=True)]
    points = [len(axis.inputs) for axis in axes]
    count = math.prod(points)
    sizes = [f"p[{d}] + p[{d + 2}] + x.shape[{d + 2}] - {r - 1}" for d, r in enumerate(kernel)]
    tiles = [f"(({size} + {m - 1}) // ({m}))" for size, m in zip(sizes, tile, strict=True)]
    ends = [
        f"{m}*{n} + {r - 1} - p[{d}] - x.shape[{d + 2}]"
        for d, (m, n, r) in enumerate(zip(tile, tiles, kernel, strict=True))
    ]
    one = "dilations=[1, 1, 1], group=1"
    values = (
        f"Conv[{one}, pads=[0, p[0], p[1], 0, {', '.join(ends)}], strides=[1, {tile[0]}, {tile[1]}]]"
        f"(Unsqueeze[axes=[1]](x), {_both([axis.inputs for axis in axes])})"
    )
    weights = (
        f"Div(Conv[{one}, pads=[0, 0, 0, 0, 0, 0], strides=[1, 1, 1]]"
        f"(Unsqueeze[axes=[1]](w), {_both([axis.filters for axis in axes])}), "
        f"ConstantOfShape[shape=[], value={math.prod(axis.divisor for axis in axes)}.0])"
    )
    # The bias is added to the product at point 1 along both axes, because every output contains it with factor 1.
    at_one = [float(k == _POINTS.index(1)) for k in range(points[0])], [float(k == 1) for k in range(points[1])]
    ones = ", ".join(str(a * b) for a, b in itertools.product(*at_one))
    shape = ", ".join(tiles)
    products = (
        f"Conv[dilations=[1, 1], group={count}, pads=[0, 0, 0, 0], strides=[1, 1]]"
        f"(Reshape[allowzero=0, shape=[x.shape[0], {count}*x.shape[1], {shape}]]({values}), "
        f"Reshape[allowzero=0, shape=[{count}*w.shape[0], w.shape[1], 1, 1]]"
        f"(Transpose[perm=[1, 0, 2, 3, 4]]({weights})), "
        f"Reshape[allowzero=0, shape=[{count}*w.shape[0]]]"
        f"(Mul(Constant[shape=[{count}, 1], value_floats=[{ones}]], b)))"
    )
    outputs = (
        f"ConvTranspose[{one}, output_padding=[0, 0, 0], pads=[0, 0, 0, 0, 0, 0], strides=[1, {tile[0]}, {tile[1]}]]"
        f"(Reshape[allowzero=0, shape=[x.shape[0], {count}, w.shape[0], {shape}]]({products}), "
        f"{_both([axis.outputs for axis in axes])})"
    )
    return parse_rule(
        f"Conv[dilations=[1, 1], group=1, pads=p, strides=[1, 1]](x, w, b) = "
        f"Slice[axes=[2, 3], ends=[{', '.join(sizes)}], starts=[0, 0], steps=[1, 1]](Squeeze[axes=[1]]({outputs}))"
    )


def _both(matrices: Sequence[tuple[tuple[int, ...], ...]]) -> str:
    """Return an expression for the outer products of all pairs of rows, as kernels of one channel [k * l, 1, 1, a,
    b]."""
    (rows, columns), (more_rows, more_columns) = ((len(matrix), len(matrix[0])) for matrix in matrices)
    first, second = (", ".join(f"{value}.0" for row in matrix for value in row) for matrix in matrices)
    return (
        f"Reshape[allowzero=0, shape=[{rows * more_rows}, 1, 1, {columns}, {more_columns}]](Mul("
        f"Constant[shape=[{rows}, 1, {columns}, 1], value_floats=[{first}]], "
        f"Constant[shape=[1, {more_rows}, 1, {more_columns}], value_floats=[{second}]]))"
    )
