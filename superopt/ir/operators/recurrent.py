"""Recurrent layers: in canonical form one direction, forward, with the default activations and both initial states.

X [steps, batch, input], W [1, 4 hidden, input], R [1, 4 hidden, hidden], B [1, 8 hidden] (may be absent), initial_h and
initial_c [1, batch, hidden]; Y [steps, 1, batch, hidden], Y_h and Y_c [1, batch, hidden]. The lengths of sequences,
which ONNX has before initial_h, are left out: all are as long as X.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ir.operators.spec import IllTyped, Need, floats, need_at_most, need_equal, op

__all__ = ["SPECS"]


def _lstm(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, w, r, b, h, c = shapes
    if any(shape is None or len(shape) != 3 for shape in (x, w, r, h, c)):
        raise IllTyped("LSTM needs X, W, R, initial_h and initial_c of three axes")
    (steps, batch, inputs), hidden = x, r[2]
    need_at_most(need, 1, steps)
    state = (1, batch, hidden)
    wanted: list[tuple[Any, Sizes]] = [
        (w, (1, hidden * 4, inputs)),
        (r, (1, hidden * 4, hidden)),
        (h, state),
        (c, state),
    ]
    if b is not None:
        wanted.append((b, (1, hidden * 8)))
    for shape, sizes in wanted:
        if len(shape) != len(sizes):
            raise IllTyped(f"a parameter of LSTM of rank {len(shape)} where {len(sizes)} is needed")
        for size, other in zip(shape, sizes, strict=True):
            need_equal(need, size, other)
    return ((steps, *state), state, state)


SPECS = (op("LSTM", 6, 6, shape=_lstm, dtype=floats, outputs=lambda attrs: 3),)
