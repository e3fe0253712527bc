"""The grammar of look-ups in tables (embeddings), whose indices are data: what may be computed in the table before.

A function of each row of a table, a product with weights, or a sum with a bias is computed once for each row, when it
is folded, and not once for each index. Graphs are compared at real numbers. Data only.
"""

from __future__ import annotations

from typing import Any

from superopt.evaluate.residues import Shape
from superopt.generate.families.usual import LAYER
from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    along,
    axes,
    binary,
    concat,
    gather,
    inputs,
    reduce,
    reshape,
    slices,
    transpose,
    unary,
    with_values,
)

__all__ = ["LOOKUPS"]

_TABLE = (5, 6)
_FUNCTIONS = "Relu Tanh Sigmoid Neg Exp Sqrt Erf Abs"
_INDICES: tuple[Shape, ...] = ((3, 4), (4,))  # of sequences, and of a list


def _family(variables: tuple[Variable, ...], *uses: Use, runtime: int = 2, **kinds: Any) -> Family:
    return Family("lookups", variables, uses, runtime, **{"elements": 120, "reals": True, **kinds})


def _indices(shape: Shape, names: str = "i", dtype: str = "int64") -> tuple[Variable, ...]:
    return inputs(names, shape, dtype=dtype)


def _lookup(table: str, indices: str = "i", axis: int = -2) -> Use:
    return Use("Lookup", {"axis": axis}, (2,), (table, indices))


LOOKUPS: tuple[Family, ...] = (
    *(
        # Functions of one number, conversions, and clipping.
        _family(
            (*inputs("t", _TABLE), *_indices(shape)),
            _lookup("t|" + "|".join((*_FUNCTIONS.split(), "Clip", "Cast"))),
            *unary(_FUNCTIONS, slots=("t|Lookup",)),
            *with_values("Clip", "bound_low", 0.0, bound_high=6.0, slots=("t|Lookup",)),
            *with_values("Cast", "to", "double", "float16", slots=("t|Lookup",)),
        )
        for shape in _INDICES
    ),
    *(
        # Biases, scales, and two tables.
        _family(
            (*inputs("t y", _TABLE), *inputs("b", (6,)), *inputs("s", ()), *_indices(shape)),
            _lookup("t|y|Add|Sub|Mul|Div|Max|Min"),
            *binary("Add Sub Mul Div Max Min", slots=("t|Lookup", "b|s|y|Lookup")),
            runtime=3,
        )
        for shape in _INDICES
    ),
    *(
        # Products with weights.
        _family(
            (*inputs("t", _TABLE), *inputs("u", (6, 4)), *_indices(shape)),
            _lookup("t|MatMul"),
            *binary("MatMul", slots=("t|Lookup", "u")),
        )
        for shape in _INDICES
    ),
    # Columns of a product.
    _family(
        (*inputs("t", _TABLE), *inputs("u", (6, 5)), *_indices((4,))),
        _lookup("u|MatMul", axis=-1),
        *binary("MatMul", slots=("t", "u|Lookup")),
    ),
    *(
        # Functions of rows.
        _family(
            (*inputs("t", _TABLE), *inputs("g h", (6,), "g"), *_indices(shape)),
            _lookup("t|Softmax|LogSoftmax|LayerNormalization|RMSNormalization|Reduce"),
            *along("Softmax LogSoftmax", "t|Lookup"),
            Use("LayerNormalization", LAYER, (2, 3), ("t|Lookup", "g", "h")),
            Use("RMSNormalization", LAYER, (2,), ("t|Lookup", "g")),
            *(
                Use(f"Reduce{kind}", {"axes": (-1,), "keepdims": 1}, (1,), ("t|Lookup",), made="Reduce")
                for kind in ("Sum", "Mean", "Max", "L2")
            ),
        )
        for shape in _INDICES
    ),
    # Sums of rows, without their axis.
    _family(
        (*inputs("t", _TABLE), *_indices((4,))),
        _lookup("t"),
        _lookup("ReduceSum|ReduceMean|ReduceMax", axis=-1),
        *reduce("Sum Mean Max", (-1,), 0, "t|Lookup"),
    ),
    *(
        # Indices with other axes.
        _family(
            (*inputs("t", _TABLE), *_indices(shape)),
            _lookup("t", "i|Unsqueeze|Reshape|Transpose|Flatten"),
            *axes("Unsqueeze", (0,), (-1,), slots=("i",)),
            *axes("Unsqueeze", (-4,), (-3,), (-2,), slots=("Lookup",)),
            *(use for perm in perms for use in transpose(perm, slots=("i|Lookup",))),
            *reshape(*shapes, slots=("i|Lookup",)),
        )
        for shape, perms, shapes in (
            ((3, 4), ((1, 0), (1, 0, 2)), ((12,), (12, 6), (6, 2), (6, 2, 6))),
            ((4,), (), ((2, 2), (2, 2, 6))),
        )
    ),
    # Some of the indices.
    *(
        _family(
            (*inputs("t", _TABLE), *_indices(shape)),
            _lookup("t", "i|Slice|Gather"),
            *slices(-1, slots=("i",)),
            *slices(-2, slots=("Lookup",)),
            *gather(-1, 0, 1, (2, 0), slots=("i",)),
            *gather(-2, 0, 1, (2, 0), slots=("Lookup",)),
        )
        for shape in _INDICES
    ),
    # Columns of a table.
    _family(
        (*inputs("t", _TABLE), *_indices((3, 4))),
        _lookup("t|Slice|Gather"),
        *slices(-1, slots=("t|Lookup",)),
        *gather(-1, (2, 0), slots=("t|Lookup",)),
    ),
    # Indices of another type.
    _family(
        (*inputs("t", _TABLE), *_indices((3, 4), dtype="int32")),
        _lookup("t", "i|Cast"),
        *with_values("Cast", "to", "int64", slots=("i",)),
    ),
    *(
        # Tables with other axes.
        _family(
            (*inputs("t", _TABLE), *_indices((4,))),
            _lookup("t|Transpose|Unsqueeze"),
            _lookup("t|Transpose|Unsqueeze", axis=axis),
            *transpose((1, 0), slots=("t|Lookup",)),
            *axes("Unsqueeze", (-1,), (-2,), (-3,), slots=("t|Lookup",)),
        )
        for axis in (-1, -3)
    ),
    *(
        # Two tables side by side, looked up at once.
        _family(
            (*inputs("t y", _TABLE), *_indices(shape)),
            _lookup("t|y|Concat"),
            *concat(-1, slots=("t|y|Lookup", "t|y|Lookup")),
            runtime=3,
        )
        for shape in _INDICES
    ),
    # Two look-ups, one after the other, along one axis or two.
    _family(
        (*inputs("t", _TABLE), *_indices((6,), "i"), *_indices((4,), "j")),
        _lookup("t|Lookup", "i|j|Indices"),
        _lookup("t|Lookup", "i|j", axis=-1),
        Use("Lookup", {"axis": -1}, (2,), ("i", "j"), made="Indices"),
    ),
    # A choice between rows.
    _family(
        (*inputs("c", _TABLE, dtype="bool"), *inputs("t y", _TABLE), *_indices((3, 4))),
        _lookup("c|t|y|Where"),
        Use("Where", {}, (3,), ("c|Lookup", "t|Lookup", "y|Lookup")),
        runtime=4,
    ),
)
