"""The grammar of normalisations: shifts that they undo, scales that weights take in, rows that nobody needs.

Data only.
"""

from __future__ import annotations

from superopt.generate.grammar import FOLDED, Family, Use, axes, binary, concat, inputs, slices, transpose, unary, zeros

__all__ = ["NORMALIZATION"]

_EPSILON = 1e-05
_LAYER = {"axis": -1, "epsilon": _EPSILON}


def _softmax(axis: int, **kinds: object) -> Use:
    return Use("Softmax", {"axis": axis}, (1,), **kinds)  # type: ignore[arg-type]


def _reduce(name: str, **kinds: object) -> Use:
    return Use(f"Reduce{name}", {"axes": (-1,), "keepdims": 1}, (1,), **kinds)  # type: ignore[arg-type]


NORMALIZATION: tuple[Family, ...] = (
    Family(
        "normalization",
        (*inputs("a", (3, 5)), *inputs("c", (3, 1)), *inputs("s", ())),
        (
            _softmax(-1),
            Use("LogSoftmax", {"axis": -1}, (1,)),
            *unary("Exp Log", slots=("*!c,s",)),
            _reduce("Sum", slots=("Exp",)),
            _reduce("Max Mean".split()[0], slots=("a",)),
            *binary("Add Sub", slots=("*!c,s",)),
            *binary("Div", slots=("*!c,s", "ReduceSum")),
        ),
        runtime=3,
        lifts="rows",
    ),
)
