"""Recurrent layers, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.generate.field.arithmetic import Array, Attrs, Kernel, P, Shape
from superopt.generate.field.functions import sigmoid, tanh
from superopt.generate.field.linear import product

__all__ = ["KERNELS"]

_P = np.uint64(P)


def _lstm(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    """The output that the attribute `index` names, of all six operands."""
    x, w, r, b, h, c = xs
    hidden = shapes[2][-1]
    bias = (b[..., : 4 * hidden] + b[..., 4 * hidden :]) % _P  # [.., 1, 4 hidden]
    w, r, h, c = (a[..., 0, :, :] for a in (w, r, h, c))
    found = []
    for t in range(shapes[0][0]):
        z = product(x[..., t, :, :], w.swapaxes(-1, -2)) + product(h, r.swapaxes(-1, -2)) + bias
        i, o, f, new = (z[..., k * hidden : (k + 1) * hidden] % _P for k in range(4))
        c = (sigmoid(f) * c % _P + sigmoid(i) * tanh(new) % _P) % _P
        h = sigmoid(o) * tanh(c) % _P
        found.append(h)
    if attrs["index"]:
        return (h if attrs["index"] == 1 else c)[..., None, :, :]
    return np.stack(found, axis=-3)[..., None, :, :]


KERNELS: Mapping[str, Kernel] = {"LSTM": _lstm}
