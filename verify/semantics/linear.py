"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

from superopt.ir.dim import Size, Sizes
from verify.algebra import Algebra
from verify.semantics.common import Definition, Operand, broadcast, number

__all__ = ["DEFINITIONS"]


def _matmul(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """sum_k a[..., m, k] * b[..., k, n]; batch axes broadcast; a vector operand has its axis as k (numpy.matmul)."""
    a, b = xs
    rest = list(i)
    n = [rest.pop()] if len(b.shape) > 1 else []
    m = [rest.pop()] if len(a.shape) > 1 else []

    def batch(x: Operand) -> list[Size]:
        own = x.shape[:-2]
        return [0 if size == 1 else j for size, j in zip(own, rest[len(rest) - len(own) :], strict=True)]

    return g.summation(a.shape[-1], lambda k: g.multiply(a.at(*batch(a), *m, k), b.at(*batch(b), k, *n)))


def _gemm(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """alpha * sum_k A'[m, k] * B'[k, n] + beta * C[m, n], with A' = A or its transpose, C broadcast to [M, N]."""
    a, b, *c = xs
    m, n = i
    inner = a.shape[0] if attrs["transA"] else a.shape[1]

    def term(k: Size) -> Any:
        left = a.at(k, m) if attrs["transA"] else a.at(m, k)
        return g.multiply(left, b.at(n, k) if attrs["transB"] else b.at(k, n))

    total = g.multiply(number(g, attrs["alpha"]), g.summation(inner, term))
    if c and c[0] is not None:
        total = g.add(total, g.multiply(number(g, attrs["beta"]), broadcast(c[0], i)))
    return total


def _einsum(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """The sum, over the letters that the output lacks, of the product of the operands (Einsum-12).

    Each letter stands for one index: "ab,bc->ac" is sum_b x0[a, b] * x1[b, c]; a letter that an operand has twice
    reads its diagonal.
    """
    left, _, right = attrs["equation"].partition("->")
    operands = left.split(",")
    sizes = {
        letter: size
        for letters, x in zip(operands, xs, strict=True)
        for letter, size in zip(letters, x.shape, strict=True)
    }
    summed = [letter for letter in sizes if letter not in right]

    def over(rest: list[str], at: Mapping[str, Size]) -> Any:
        if rest:
            return g.summation(sizes[rest[0]], lambda k: over(rest[1:], {**at, rest[0]: k}))
        factors = [x.at(*(at[letter] for letter in letters)) for letters, x in zip(operands, xs, strict=True)]
        return reduce(g.multiply, factors)

    return over(summed, dict(zip(right, i, strict=True)))


DEFINITIONS: Mapping[str, Definition] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
}
