"""Recurrent layers, step by step. An absent bias is None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from superopt.evaluate import scalar, standard
from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE", "OPTIONAL"]

_STANDARD: Mapping[str, Compute] = {**scalar.COMPUTE, **standard.COMPUTE}


def _lstm(inputs: Sequence[Any], attrs: Attrs) -> list[Array]:
    """In each step, with i, o, f, g the quarters of x W^T + h R^T + Wb + Rb:

    c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c)
    """
    x, w, r, b, h, c = inputs
    w, r, h, c = w[0], r[0], h[0], c[0]
    bias = 0.0 if b is None else b[0, : len(w)] + b[0, len(w) :]
    found = []
    for step in x:
        i, o, f, g = np.split(step @ w.T + h @ r.T + bias, 4, axis=-1)
        (i,), (o,), (f,) = (_STANDARD["Sigmoid"]([z], {}) for z in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        found.append(h)
    return [np.stack(found)[:, None], h[None], c[None]]


COMPUTE: Mapping[str, Compute] = {"LSTM": _lstm}
OPTIONAL = frozenset({"LSTM"})
