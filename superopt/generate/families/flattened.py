"""The grammar of rows that are flattened to a matrix for a product and restored after, as frameworks write a layer of
a sequence, and of Reshapes that change nothing. Data only."""

from __future__ import annotations

from typing import Any

from superopt.generate.families.usual import GEMM
from superopt.generate.grammar import Family, Use, Variable, binary, inputs, reshape

__all__ = ["FLATTENED"]

_BATCH, _LENGTH, _WIDTH, _OUT = 2, 3, 4, 5
_ROWS = (_BATCH, _LENGTH, _WIDTH)


def _family(variables: tuple[Variable, ...], *uses: Use, **kinds: Any) -> Family:
    return Family("flattened", variables, uses, **{"runtime": 2, "elements": 120, **kinds})


FLATTENED: tuple[Family, ...] = (
    # Products of flattened rows, with a bias or without.
    _family(
        (*inputs("x", _ROWS), *inputs("w", (_WIDTH, _OUT), "w", True), *inputs("b", (_OUT,), "b", True)),
        *reshape((-1, _WIDTH), (_BATCH * _LENGTH, _WIDTH), slots=("x",)),
        *binary("MatMul", slots=("x|Reshape", "w")),
        *binary("Add", slots=("MatMul", "b")),
        Use("Gemm", GEMM, (2, 3), ("Reshape", "w", "b")),
        *reshape((_BATCH, _LENGTH, _OUT), (_BATCH, _LENGTH, -1), (0, _LENGTH, _OUT), slots=("MatMul|Add|Gemm",)),
        *reshape((-1, _OUT), slots=("MatMul|Add",)),
        runtime=4,
    ),
    # The same with the weights' columns as rows.
    _family(
        (*inputs("x", _ROWS), *inputs("w", (_OUT, _WIDTH), "w", True), *inputs("b", (_OUT,), "b", True)),
        *reshape((-1, _WIDTH), (_BATCH * _LENGTH, _WIDTH), slots=("x",)),
        Use("Transpose", {"perm": (1, 0)}, (1,), ("w",), run=False, fold=True),
        *binary("MatMul", slots=("x", "Transpose")),
        *binary("Add", slots=("MatMul", "b")),
        Use("Gemm", {**GEMM, "transB": 1}, (2, 3), ("Reshape", "w", "b")),
        *reshape((_BATCH, _LENGTH, _OUT), (_BATCH, _LENGTH, -1), slots=("Gemm",)),
        runtime=3,
        folded=(1, 1, 1, 1),
    ),
    # Targets that are the operand's own shape.
    *(
        _family(inputs("x", shape), *reshape(*targets, slots=("x",)), runtime=1)
        for shape, targets in (
            ((6,), ((-1,), (0,), (6,))),
            ((4, 6), ((0, -1), (-1, 6), (4, -1), (0, 0), (4, 6))),
            ((2, 3, 4), ((0, 0, -1), (0, -1, 4), (-1, 3, 4), (2, 3, -1), (0, 3, 4), (2, 3, 4))),
            ((2, 3, 4, 5), ((0, 0, 0, -1), (0, 0, -1, 5), (0, -1, 4, 5), (-1, 3, 4, 5), (2, 3, 4, -1), (2, 3, 4, 5))),
        )
    ),
)
