"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.generate.field.arithmetic import Array, Attrs, Kernel, P, Shape, lift, residue, scaled

__all__ = ["KERNELS", "product"]

_P = np.uint64(P)


def product(a: Array, b: Array) -> Array:
    """Matrix product of the last two axes, the axes before broadcast."""
    if not a.shape[-1]:
        stacked = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.zeros((*stacked, a.shape[-2], b.shape[-1]), dtype=np.uint64)
    total = a[..., :, :1] * b[..., :1, :] % _P
    for k in range(1, a.shape[-1]):
        total += a[..., :, k : k + 1] * b[..., k : k + 1, :] % _P
    total %= _P
    return total


def _matmul(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    (a, b), (left, right) = xs, shapes
    if len(left) == 1:
        a, left = a[..., None, :], (1, *left)
    if len(right) == 1:
        b, right = b[..., :, None], (*right, 1)
    rank = max(len(left), len(right))
    found = product(lift(a, left, rank), lift(b, right, rank))
    return found.reshape(found.shape[: found.ndim - rank] + out)


def _gemm(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """alpha * A' * B' + beta * C."""
    a = xs[0].swapaxes(-1, -2) if attrs["transA"] else xs[0]
    b = xs[1].swapaxes(-1, -2) if attrs["transB"] else xs[1]
    total = scaled(product(a, b), residue(attrs["alpha"]))
    if len(xs) > 2:
        total = (total + scaled(lift(xs[2], shapes[2], 2), residue(attrs["beta"]))) % _P
    return total


def _einsum(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """The product of all operands over all letters, summed over those that the output lacks."""
    left, _, right = attrs["equation"].partition("->")
    summed = [letter for letter in dict.fromkeys(left.replace(",", "")) if letter not in right]
    letters = [*right, *summed]
    total = np.ones((), dtype=np.uint64)
    for x, own in zip(xs, left.split(","), strict=True):
        here = [letter for letter in letters if letter in own]
        part = np.einsum(f"...{own}->...{''.join(here)}", x)  # moves axes and takes diagonals
        stacked = part.shape[: part.ndim - len(here)]
        sizes = iter(part.shape[len(stacked) :])
        part = part.reshape(stacked + tuple(next(sizes) if letter in own else 1 for letter in letters))
        total = total * part % _P
    return total.sum(axis=tuple(range(-len(summed), 0)), dtype=np.uint64) % _P if summed else total


KERNELS: Mapping[str, Kernel] = {"MatMul": _matmul, "Gemm": _gemm, "Einsum": _einsum}
