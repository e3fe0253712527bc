"""Recurrent layers over a known number of steps. Sequences of any length: `verify.recurrence`.

Source: the page of LSTM in the ONNX specification, with the default activations and no peepholes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from superopt.ir.dim import Size, Sizes
from verify.algebra import Algebra, Piece, equal
from verify.semantics.common import Definition, NoSemantics

__all__ = ["DEFINITIONS"]

_GATES = "iofc"  # the order of their rows in W, R and B


def _lstm(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """h(t) and c(t) after step t, from h(-1) = initial_h and c(-1) = initial_c:

        z(k, t)[b, j] = sum_n X[t, b, n] W[0, k H + j, n] + sum_m h(t - 1)[b, m] R[0, k H + j, m]
                        + B[0, k H + j] + B[0, (4 + k) H + j],    H the hidden size and k = 0, 1, 2, 3 for i, o, f, c
        c(t) = sigmoid(z(f, t)) c(t - 1) + sigmoid(z(i, t)) tanh(z(c, t))
        h(t) = sigmoid(z(o, t)) tanh(c(t))

    Y = h(0), h(1), ...; Y_h and Y_c are the last h and c (the output's number comes as attribute `index`).
    """
    x, w, r, b, initial_h, initial_c = xs
    steps, hidden = x.shape[0], r.shape[2]
    if not isinstance(steps, int):
        raise NoSemantics("LSTM of any number of steps")

    @cache
    def gate(name: str, t: int, batch: Size, j: Size) -> Any:
        k = _GATES.index(name)
        row = hidden * k + j
        parts = [
            g.summation(w.shape[2], lambda n: g.multiply(x.at(t, batch, n), w.at(0, row, n))),
            g.summation(hidden, lambda m: g.multiply(h(t - 1, batch, m), r.at(0, row, m))),
        ]
        if b is not None:
            parts += [b.at(0, row), b.at(0, hidden * 4 + row)]
        return g.apply("tanh" if name == "c" else "sigmoid", g.add(*parts))

    @cache
    def c(t: int, batch: Size, j: Size) -> Any:
        if t < 0:
            return initial_c.at(0, batch, j)
        kept = g.multiply(gate("f", t, batch, j), c(t - 1, batch, j))
        return g.add(kept, g.multiply(gate("i", t, batch, j), gate("c", t, batch, j)))

    @cache
    def h(t: int, batch: Size, j: Size) -> Any:
        if t < 0:
            return initial_h.at(0, batch, j)
        return g.multiply(gate("o", t, batch, j), g.apply("tanh", c(t, batch, j)))

    if attrs["index"]:
        return (h if attrs["index"] == 1 else c)(steps - 1, *i[1:])
    if isinstance(i[0], int):
        return h(i[0], *i[2:])
    pieces: list[Piece] = [([equal(i[0], t)], partial(h, t, *i[2:])) for t in range(steps)]
    return g.piecewise(pieces, None)


DEFINITIONS: Mapping[str, Definition] = {"LSTM": _lstm}
