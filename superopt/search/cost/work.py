"""Arithmetic and memory traffic of one operator.

The arithmetic is counted in the operator's definition (`superopt.search.cost.arithmetic`). Operations in sums of
products (`Work.dense`) and all others (`Work.scalar`) are counted separately, because they run at different rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from superopt.ir.dim import Size
from superopt.ir.infer import OPERATORS
from superopt.ir.term import Term
from superopt.ir.types import TensorType
from superopt.ops.recurrent import RECURRENT
from superopt.properties import changes_shape_only, moves
from superopt.search.cost.arithmetic import Work, arithmetic

__all__ = ["UNKNOWN_SIZE", "Traffic", "Work", "bytes_of", "elements", "tables", "traffic", "work"]

# Sizes that stand for unknown ones.
UNKNOWN_SIZE = 32
_UNKNOWN_RANK_ELEMENTS = 4096
_WIDTHS = {"double": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16}
_NARROW = {"float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1}

_RECURRENT = frozenset({"RNN", *RECURRENT})
_GATE = 14  # operations of a gate: a sum with a bias, and a sigmoid
# Operators without a definition that move data: the first set only returns a shape, the second reads what it writes.
_UNDEFINED_VIEWS = frozenset({"Shape"})
_UNDEFINED_SELECTIONS = frozenset({"GatherElements", "GatherND"})


class Traffic(NamedTuple):
    """Bytes read and written: of values that are computed, and of constants."""

    values: int = 0
    weights: int = 0


def work(term: Term) -> Work:
    """Return the arithmetic of the operator `term` alone: none for data movement and for unknown operators.

    Unknown sizes count as a usual size.
    """
    if term.op in _RECURRENT:
        return _recurrent(term)
    if term.op not in OPERATORS or moves(term.op):
        return Work()
    inputs = tuple(None if used is None else _sized(used.type) for used in term.inputs)
    results = tuple(map(_sized, term.types))
    known = all(used is None or type is not None for used, type in zip(term.inputs, inputs, strict=True))
    if None in results or not known:
        return Work(scalar=_UNKNOWN_RANK_ELEMENTS)
    return arithmetic(term.op, term.attrs, inputs, results)


def _recurrent(term: Term) -> Work:
    """Return the arithmetic of a recurrent operator in any of ONNX's forms, including forms without a definition.

    In each step, each gate multiplies its rows of W by x and its rows of R by the previous state, and applies a
    function.
    """
    types = [None if used is None else _sized(used.type) for used in term.inputs[:3]]
    x, w, r = (() if type is None else type.shape or () for type in (*types, None, None, None)[:3])
    if len(x) != 3 or len(w) != 3 or len(r) != 3:
        return Work(scalar=_UNKNOWN_RANK_ELEMENTS)
    steps, batch, gates = _product(x[:1]), _product(x[1:2]), _product(r[:2])
    return Work(2 * steps * batch * (_product(w) + _product(r)), steps * batch * gates * _GATE)


def traffic(term: Term) -> Traffic:
    """Return the bytes that the operator `term` alone reads and writes. An input that is used twice is read once.

    An operator that only changes the shape moves nothing. Other data movement reads no more than it writes. Rows of a
    table at indices that are data count as values: the table as a whole is in no cache.
    """
    op = term.op.rpartition("::")[2]
    if op in _UNDEFINED_VIEWS or changes_shape_only(op):
        return Traffic()
    written = sum(map(bytes_of, term.types))
    selects = op in _UNDEFINED_SELECTIONS or moves(op)
    read = [0, 0]
    for used in set(term.inputs):
        if used is not None:
            size = bytes_of(used.type)
            is_weight = used.is_constant and used not in tables(term)
            read[is_weight] += min(size, written) if selects else size
    return Traffic(written + read[False], read[True])


def tables(term: Term) -> tuple[Term | None, ...]:
    """Return the operands of which `term` reads the rows at indices that are data, and no others."""
    return term.inputs[:1] if term.op in OPERATORS and OPERATORS[term.op].index_operands else ()


def elements(value: Term | None) -> int:
    """Return the number of elements of a value (for an operator: of its first output)."""
    shape = _shape(value)
    return _UNKNOWN_RANK_ELEMENTS if shape is None else _product(shape)


def bytes_of(type: TensorType | None) -> int:
    """Return the size in bytes; unknown dimensions count as a usual size."""
    if type is None or type.shape is None:
        return 4 * _UNKNOWN_RANK_ELEMENTS
    width = _WIDTHS.get(type.dtype) or _NARROW.get(type.dtype, 4)
    return width * _product(type.shape)


def _product(sizes: Iterable[Size]) -> int:
    return math.prod(size if isinstance(size, int) else UNKNOWN_SIZE for size in sizes)


def _shape(value: Term | None) -> tuple[Size, ...] | None:
    types = () if value is None else value.types
    return types[0].shape if types and types[0] is not None else None


def _sized(type: TensorType | None) -> TensorType | None:
    """Return the type with a usual size in place of each unknown one, or None if the rank is unknown."""
    if type is None or type.shape is None:
        return None
    return TensorType(type.dtype, tuple(size if isinstance(size, int) else UNKNOWN_SIZE for size in type.shape))
