"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from string import ascii_lowercase
from typing import Any

from superopt.ir.dim import Size, Sizes
from superopt.ops.algebra import Algebra
from superopt.ops.definition import Operand
from superopt.ops.entry import composite, operator
from superopt.ops.typing import IllTyped, Need, broadcast_shapes, floats, need_equal, numbers


def _matmul_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    a, b = shapes
    if not a or not b:
        raise IllTyped("MatMul of a scalar")
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    need_equal(need, left[-1], right[-2])
    batch = broadcast_shapes([left[:-2], right[:-2]], need)
    return ((*batch, *(left[-2:-1] if len(a) > 1 else ()), *(right[-1:] if len(b) > 1 else ())),)


@operator("MatMul", 2, 2, shape=_matmul_type, dtype=numbers)
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


def _gemm_type(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    a, b = shapes[:2]
    if len(a) != 2 or len(b) != 2:
        raise IllTyped("Gemm needs matrices")
    m, k = reversed(a) if attrs["transA"] else a
    k2, n = reversed(b) if attrs["transB"] else b
    need_equal(need, k, k2)
    if len(shapes) > 2 and shapes[2] is not None:
        c = shapes[2]
        if len(c) > 2:
            raise IllTyped("Gemm's C has more than two dimensions")
        for size, full in zip(reversed(c), (n, m), strict=False):
            if size != 1:
                need_equal(need, size, full)
    return ((m, n),)


composite(
    "Gemm", 2, 3, "alpha=1.0 beta=1.0 transA=0 transB=0",
    "Gemm[transA=0, transB=0](a, b) = Mul(alpha, MatMul(a, b))",
    "Gemm[transA=0, transB=0](a, b, c) = Add(Mul(alpha, MatMul(a, b)), Mul(beta, c))",
    "Gemm[transA=0](a, b, c) = Gemm[alpha=alpha, beta=beta, transA=0, transB=0](a, Transpose[perm=[1, 0]](b), c)",
    "Gemm(a, b, c) = Gemm[alpha=alpha, beta=beta, transA=0, transB=transB](Transpose[perm=[1, 0]](a), b, c)",
    shape=_gemm_type, dtype=floats,  # ONNX Runtime has no kernel for integers
)  # fmt: skip


def _einsum_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    left, arrow, right = attrs["equation"].partition("->")
    operands = left.split(",")
    sizes: dict[str, Size] = {}
    if not arrow or len(operands) != len(shapes):
        raise IllTyped(f"equation {attrs['equation']!r} of {len(shapes)} operands")
    for letters, shape in zip(operands, shapes, strict=True):
        if len(letters) != len(shape):
            raise IllTyped(f"operand {letters!r} of rank {len(shape)}")
        for letter, size in zip(letters, shape, strict=True):
            need_equal(need, sizes.setdefault(letter, size), size)
    if "".join(sizes) != ascii_lowercase[: len(sizes)]:
        raise IllTyped("Einsum's letters are a, b, c, ... in the order in which they first occur")
    if len(set(right)) != len(right) or not sizes.keys() >= set(right):
        raise IllTyped(f"output {right!r} repeats a letter, or has one that no operand has")
    return (tuple(sizes[letter] for letter in right),)


@operator("Einsum", 1, None, "equation", shape=_einsum_type, dtype=numbers, integers="floating")
def _einsum(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """The product of the operands, summed over the letters that the output lacks (Einsum-12).

    Each letter stands for one index: "ab,bc->ac" is sum_b x0[a, b] * x1[b, c]; a letter twice in
    one operand selects its diagonal.
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
