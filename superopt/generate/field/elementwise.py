"""Operators that work element by element; operands broadcast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.generate.field.arithmetic import HALF, Array, Attrs, Kernel, P, Shape, aligned, negative
from superopt.generate.field.functions import sigmoid, tanh

__all__ = ["KERNELS"]

_P = np.uint64(P)


def _add(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    total, *rest = aligned(xs, shapes, out)
    for x in rest:
        total = (total + x) % _P
    return total


def _sub(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    left, right = aligned(xs, shapes, out)
    result: Array = (left + (_P - right)) % _P
    return result


def _mul(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    left, right = aligned(xs, shapes, out)
    result: Array = left * right % _P
    return result


def _relu(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    result: Array = np.where(xs[0] <= HALF, xs[0], np.uint64(0))
    return result


KERNELS: Mapping[str, Kernel] = {
    "Add": _add,
    "Sum": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Neg": lambda xs, shapes, attrs, out: negative(xs[0]),
    "Identity": lambda xs, shapes, attrs, out: xs[0],
    "Relu": _relu,
    "Sigmoid": lambda xs, shapes, attrs, out: sigmoid(xs[0]),
    "Tanh": lambda xs, shapes, attrs, out: tanh(xs[0]),
}
