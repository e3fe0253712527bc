"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

from superopt.ir.dim import Size, Sizes
from superopt.ir.operators.spec import IllTyped, Need, broadcast, need_equal, numbers, op

__all__ = ["SPECS"]


def _matmul(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    a, b = shapes
    if not a or not b:
        raise IllTyped("MatMul of a scalar")
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    need_equal(need, left[-1], right[-2])
    batch = broadcast([left[:-2], right[:-2]], need)
    return ((*batch, *(left[-2:-1] if len(a) > 1 else ()), *(right[-1:] if len(b) > 1 else ())),)


def _gemm(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
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


def _einsum(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
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


SPECS = (
    op("MatMul", 2, 2, shape=_matmul, dtype=numbers),
    op("Gemm", 2, 3, "alpha=1.0 beta=1.0 transA=0 transB=0", shape=_gemm, dtype=numbers),
    op("Einsum", 1, None, "equation", shape=_einsum, dtype=numbers),
)
