"""Recurrent layers. The canonical form has one direction, forward, the default activations and all initial states.

Operands: X [steps, batch, input], W [1, gates * hidden, input], R [1, gates * hidden, hidden], the optional B [1, 2 *
gates * hidden], and the initial states (initial_h, and initial_c for LSTM), each [1, batch, hidden]. Outputs: Y [steps,
1, batch, hidden] and the last states, each [1, batch, hidden]. ONNX's operand `sequence_lens` is left out: all
sequences are as long as X.

Source: the pages of GRU and LSTM in the ONNX specification, with the default activations and no peepholes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any, TypeAlias

from superopt.ir.dim import Size, Sizes
from superopt.ops.algebra import Algebra, Piece, equal
from superopt.ops.definition import Definition, NoSemantics, difference
from superopt.ops.entry import operator
from superopt.ops.typing import IllTyped, Need, floats, need_at_most, need_equal

__all__ = ["RECURRENT", "Recurrent"]


@dataclass(frozen=True)
class Recurrent:
    """The form of a recurrent operator: its number of gates and its states. Each gate has rows in W, R and B.

    States are passed from step to step. They are the operands after B and the outputs after Y, in the same order.
    """

    gates: int
    states: tuple[str, ...]
    attrs: str = ""  # each of them is 0 or 1

    @property
    def places(self) -> range:
        """Positions of the states among the operands."""
        return range(4, 4 + len(self.states))


RECURRENT: Mapping[str, Recurrent] = {
    "GRU": Recurrent(3, ("initial_h",), "linear_before_reset=0"),
    "LSTM": Recurrent(4, ("initial_h", "initial_c")),
}


def _shapes(name: str, shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, w, r, b, *states = shapes
    if any(shape is None or len(shape) != 3 for shape in (x, w, r, *states)):
        raise IllTyped(f"{name} needs X, W, R and states of three axes")
    if any(value not in (0, 1) for value in attrs.values()):
        raise IllTyped(f"an attribute of {name} is neither 0 nor 1")
    (steps, batch, inputs), hidden = x, r[2]
    rows = hidden * RECURRENT[name].gates
    need_at_most(need, 1, steps)
    state = (1, batch, hidden)
    wanted: list[tuple[Any, Sizes]] = [(w, (1, rows, inputs)), (r, (1, rows, hidden)), *((s, state) for s in states)]
    if b is not None:
        wanted.append((b, (1, rows * 2)))
    for shape, sizes in wanted:
        if len(shape) != len(sizes):
            raise IllTyped(f"a parameter of {name} of rank {len(shape)} where {len(sizes)} is needed")
        for size, other in zip(shape, sizes, strict=True):
            need_equal(need, size, other)
    return ((steps, *state), *[state] * len(states))


def _recurrent(name: str) -> Callable[[Definition], Definition]:
    kind = RECURRENT[name]
    operands, outputs = kind.places.stop, 1 + len(kind.states)
    return operator(
        name, operands, operands, kind.attrs,
        shape=partial(_shapes, name), dtype=floats, outputs=lambda attrs: outputs, states=tuple(kind.places),
    )  # fmt: skip


_State: TypeAlias = Callable[[int, Size, Size], Any]  # (step, index in the batch, index in the state) -> scalar


@dataclass(frozen=True)
class _Layer:
    """The operands of a recurrent layer, and the names of its gates in the order of their rows in W, R and B.

    With H the hidden size, G the number of gates, and k the position of a gate:

        read(k, t)[b, j] = sum_n X[t, b, n] W[0, k H + j, n] + B[0, k H + j]
        kept(k, s)[b, j] = sum_m s[b, m] R[0, k H + j, m] + B[0, (G + k) H + j]
    """

    g: Algebra
    operands: Sequence[Any]
    gates: str

    @property
    def hidden(self) -> Size:
        size: Size = self.operands[2].shape[2]
        return size

    def read(self, gate: str, t: int, batch: Size, j: Size) -> Any:
        """Return the contribution of a step's input to a gate."""
        (x, w, *_), row = self.operands, self._row(gate, j)
        total = self.g.summation(w.shape[2], lambda n: self.g.multiply(x.at(t, batch, n), w.at(0, row, n)))
        return self._biased(total, row)

    def kept(self, gate: str, state: Callable[[Size], Any], j: Size) -> Any:
        """Return the contribution of a state to a gate."""
        r, row = self.operands[2], self._row(gate, j)
        total = self.g.summation(self.hidden, lambda m: self.g.multiply(state(m), r.at(0, row, m)))
        return self._biased(total, self.hidden * len(self.gates) + row)

    def _row(self, gate: str, j: Size) -> Size:
        return self.hidden * self.gates.index(gate) + j

    def _biased(self, total: Any, row: Size) -> Any:
        b = self.operands[3]
        return total if b is None else self.g.add(total, b.at(0, row))

    def output(self, states: Sequence[_State], attrs: Mapping[str, Any], i: Sizes) -> Any:
        """Return an element of Y = h(0), h(1), ..., or of a last state. Attribute `index` is the output's number."""
        steps = self.operands[0].shape[0]
        if not isinstance(steps, int):
            raise NoSemantics("a recurrent operator of any number of steps")
        if attrs["index"]:
            return states[attrs["index"] - 1](steps - 1, *i[1:])
        if isinstance(i[0], int):
            return states[0](i[0], *i[2:])
        pieces: list[Piece] = [([equal(i[0], t)], partial(states[0], t, *i[2:])) for t in range(steps)]
        return self.g.piecewise(pieces, None)


@_recurrent("LSTM")
def _lstm(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """h(t) and c(t) after step t, from h(-1) = initial_h and c(-1) = initial_c:

    z(k, t) = read(k, t) + kept(k, h(t - 1)), for the gates i, o, f, c
    c(t) = sigmoid(z(f, t)) c(t - 1) + sigmoid(z(i, t)) tanh(z(c, t))
    h(t) = sigmoid(z(o, t)) tanh(c(t))
    """
    layer = _Layer(g, xs, "iofc")
    initial_h, initial_c = xs[4:]

    @cache
    def gate(name: str, t: int, batch: Size, j: Size) -> Any:
        z = g.add(layer.read(name, t, batch, j), layer.kept(name, partial(h, t - 1, batch), j))
        return g.apply("tanh" if name == "c" else "sigmoid", z)

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

    return layer.output((h, c), attrs, i)


@_recurrent("GRU")
def _gru(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """h(t) after step t, from h(-1) = initial_h, with the gates z, r, h (here n, as it is not the state):

    z(t) = sigmoid(read(z, t) + kept(z, h(t - 1)));  r(t) = sigmoid(read(r, t) + kept(r, h(t - 1)))
    n(t) = tanh(read(n, t) + kept(n, r(t) h(t - 1)))   if linear_before_reset is 0
    n(t) = tanh(read(n, t) + r(t) kept(n, h(t - 1)))   if linear_before_reset is 1
    h(t) = (1 - z(t)) n(t) + z(t) h(t - 1)
    """
    layer = _Layer(g, xs, "zrn")
    initial_h = xs[4]

    @cache
    def gate(name: str, t: int, batch: Size, j: Size) -> Any:
        return g.apply("sigmoid", g.add(layer.read(name, t, batch, j), layer.kept(name, partial(h, t - 1, batch), j)))

    @cache
    def reset(t: int, batch: Size, j: Size) -> Any:
        return g.multiply(gate("r", t, batch, j), h(t - 1, batch, j))

    @cache
    def new(t: int, batch: Size, j: Size) -> Any:
        if attrs["linear_before_reset"]:
            kept = g.multiply(gate("r", t, batch, j), layer.kept("n", partial(h, t - 1, batch), j))
        else:
            kept = layer.kept("n", partial(reset, t, batch), j)
        return g.apply("tanh", g.add(layer.read("n", t, batch, j), kept))

    @cache
    def h(t: int, batch: Size, j: Size) -> Any:
        if t < 0:
            return initial_h.at(0, batch, j)
        z = gate("z", t, batch, j)
        left = difference(g, g.constant(Fraction(1)), z)
        return g.add(g.multiply(left, new(t, batch, j)), g.multiply(z, h(t - 1, batch, j)))

    return layer.output((h,), attrs, i)
