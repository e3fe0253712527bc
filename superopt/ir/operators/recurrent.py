"""Recurrent layers: in canonical form one direction, forward, with the default activations and all initial states.

X [steps, batch, input], W [1, gates hidden, input], R [1, gates hidden, hidden], B [1, 2 gates hidden] (may be absent)
and the states, initial_h and the like, [1, batch, hidden]; Y [steps, 1, batch, hidden], and the last states [1, batch,
hidden]. The lengths of sequences, which ONNX has before initial_h, are left out: all are as long as X.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ir.operators.spec import IllTyped, Need, OpSpec, floats, need_at_most, need_equal, op

__all__ = ["RECURRENT", "SPECS", "Recurrent"]


@dataclass(frozen=True)
class Recurrent:
    """What recurrent operators differ in: how many gates have rows in W, R and B, and the states that go from step to
    step, which are the operands after B, and the outputs after Y, in the same order."""

    gates: int
    states: tuple[str, ...]
    attrs: str = ""  # of which each is 0 or 1

    @property
    def places(self) -> range:
        """Which operands the states are."""
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


def _spec(name: str, kind: Recurrent) -> OpSpec:
    operands, outputs = kind.places.stop, 1 + len(kind.states)
    shape = partial(_shapes, name)
    return op(name, operands, operands, kind.attrs, shape=shape, dtype=floats, outputs=lambda attrs: outputs)


SPECS = tuple(_spec(name, kind) for name, kind in RECURRENT.items())
