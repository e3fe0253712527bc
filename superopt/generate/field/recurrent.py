"""Recurrent layers, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from superopt.generate.field.arithmetic import Array, Attrs, Kernel, P, Shape, negative
from superopt.generate.field.functions import sigmoid, tanh
from superopt.generate.field.linear import product

__all__ = ["KERNELS"]

_P = np.uint64(P)


def _lstm(read: Array, states: Sequence[Array], r: Array, b: Array, attrs: Attrs) -> list[Array]:
    h, c = states
    i, o, f, new = _parts((read + product(h, r.swapaxes(-1, -2)) + b) % _P, 4)
    c = (sigmoid(f) * c % _P + sigmoid(i) * tanh(new) % _P) % _P
    return [sigmoid(o) * tanh(c) % _P, c]


def _gru(read: Array, states: Sequence[Array], r: Array, b: Array, attrs: Attrs) -> list[Array]:
    (h,) = states
    (xz, xr, xn), (hz, hr, hn) = (_parts(a, 3) for a in (read, (product(h, r.swapaxes(-1, -2)) + b) % _P))
    z, reset = sigmoid((xz + hz) % _P), sigmoid((xr + hr) % _P)
    if attrs["linear_before_reset"]:
        kept = reset * hn % _P
    else:
        kept = _parts((product(reset * h % _P, r.swapaxes(-1, -2)) + b) % _P, 3)[2]
    new = tanh((xn + kept) % _P)
    return [(new + z * ((h + negative(new)) % _P)) % _P]


def _parts(a: Array, count: int) -> list[Array]:
    return np.split(a, count, axis=-1)


def _recurrent(step: Callable[..., list[Array]]) -> Kernel:
    """The output that the attribute `index` names, of all operands: see `superopt.evaluate.recurrent`."""

    def kernel(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
        x, w, r, b, *initial = xs
        w, r, *states = (a[..., 0, :, :] for a in (w, r, *initial))
        read_bias, kept_bias = np.split(b, 2, axis=-1)  # [.., 1, gates hidden]
        found = []
        for t in range(shapes[0][0]):
            read = (product(x[..., t, :, :], w.swapaxes(-1, -2)) + read_bias) % _P
            states = step(read, states, r, kept_bias, attrs)
            found.append(states[0])
        if attrs["index"]:
            last: Array = states[attrs["index"] - 1]
            return last[..., None, :, :]
        return np.stack(found, axis=-3)[..., None, :, :]

    return kernel


KERNELS: Mapping[str, Kernel] = {"GRU": _recurrent(_gru), "LSTM": _recurrent(_lstm)}
