"""Recurrent layers."""

from __future__ import annotations

import random

from tests.semantic_cases.case import Case, Maker, values

__all__ = ["CASES"]


def _lstm(rng: random.Random) -> Case:
    """With a bias or without."""
    steps, batch, inputs, hidden = (rng.randint(1, 3) for _ in range(4))
    shapes = [(steps, batch, inputs), (1, 4 * hidden, inputs), (1, 4 * hidden, hidden), (1, 8 * hidden)]
    shapes += [(1, batch, hidden)] * 2
    arrays = [values(rng, shape) for shape in shapes]
    return Case({}, [None if k == 3 and rng.random() < 0.3 else a for k, a in enumerate(arrays)])


CASES: dict[str, Maker] = {"LSTM": _lstm}
