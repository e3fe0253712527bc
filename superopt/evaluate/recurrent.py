"""Recurrent layers, step by step. An absent bias is None."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from superopt.evaluate import scalar, standard
from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE", "OPTIONAL"]

_STANDARD: Mapping[str, Compute] = {**scalar.COMPUTE, **standard.COMPUTE}


def _sigmoid(x: Array) -> Array:
    return _STANDARD["Sigmoid"]([x], {})[0]


def _lstm(read: Array, states: Sequence[Array], r: Array, b: Array, attrs: Attrs) -> list[Array]:
    """With i, o, f, g the quarters of x W^T + Wb + h R^T + Rb:

    c = sigmoid(f) c + sigmoid(i) tanh(g);  h = sigmoid(o) tanh(c)
    """
    h, c = states
    i, o, f, g = np.split(read + h @ r.T + b, 4, axis=-1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return [_sigmoid(o) * np.tanh(c), c]


def _gru(read: Array, states: Sequence[Array], r: Array, b: Array, attrs: Attrs) -> list[Array]:
    """With xz, xr, xn the thirds of x W^T + Wb, and R, Rb likewise:

    z = sigmoid(xz + h Rz^T + Rbz);  r = sigmoid(xr + h Rr^T + Rbr);  h = (1 - z) n + z h
    n = tanh(xn + (r h) Rn^T + Rbn), or where linear_before_reset is 1: n = tanh(xn + r (h Rn^T + Rbn))
    """
    (h,) = states
    (xz, xr, xn), (rz, rr, rn), (bz, br, bn) = (np.split(a, 3, axis=k) for a, k in ((read, -1), (r, 0), (b, 0)))
    z, reset = _sigmoid(xz + h @ rz.T + bz), _sigmoid(xr + h @ rr.T + br)
    kept = reset * (h @ rn.T + bn) if attrs["linear_before_reset"] else (reset * h) @ rn.T + bn
    return [(1 - z) * np.tanh(xn + kept) + z * h]


def _recurrent(step: Callable[..., list[Array]]) -> Compute:
    """All outputs, where `step` makes the states after a step from what is read in it and those before."""

    def compute(inputs: Sequence[Any], attrs: Attrs) -> list[Array]:
        x, (w,), (r,), b, *initial = inputs
        read_bias, kept_bias = np.zeros((2, len(w))) if b is None else np.split(b[0], 2)
        states, found = [state[0] for state in initial], []
        for part in x:
            states = step(part @ w.T + read_bias, states, r, kept_bias, attrs)
            found.append(states[0])
        return [np.stack(found)[:, None], *(state[None] for state in states)]

    return compute


COMPUTE: Mapping[str, Compute] = {"GRU": _recurrent(_gru), "LSTM": _recurrent(_lstm)}
OPTIONAL = frozenset(COMPUTE)
