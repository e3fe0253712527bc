"""Recurrent layers."""

from __future__ import annotations

import random

from superopt.ir.infer import OPERATORS
from superopt.ops.recurrent import RECURRENT
from tests.support.semantic_cases.case import Case, Maker, values

__all__ = ["CASES"]


def _maker(op: str) -> Maker:
    """With a bias or without."""
    kind = RECURRENT[op]

    def make(rng: random.Random) -> Case:
        steps, batch, inputs, hidden = (rng.randint(1, 3) for _ in range(4))
        rows = kind.gates * hidden
        shapes = [(steps, batch, inputs), (1, rows, inputs), (1, rows, hidden), (1, 2 * rows)]
        shapes += [(1, batch, hidden)] * len(kind.states)
        arrays = [values(rng, shape) for shape in shapes]
        attrs = {name: rng.randint(0, 1) for name in OPERATORS[op].attrs}
        return Case(attrs, [None if k == 3 and rng.random() < 0.3 else a for k, a in enumerate(arrays)])

    return make


CASES: dict[str, Maker] = {op: _maker(op) for op in RECURRENT}
