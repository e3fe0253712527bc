"""Data movement: decide from an operator's definition if its output elements are unchanged input elements.

The kernel depends on this analysis in two places. A moved integer is in the range of its element type already, so the
result needs no wrapping. An operator that only moves data does not round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

from superopt.ir.dim import Size, Sizes, symbol
from superopt.ir.operator import OPERATORS, Operator
from superopt.ir.term import Term
from superopt.ops.algebra import Guard, Piece, Table
from superopt.ops.definition import NoSemantics, Operand

__all__ = ["Movement", "movement", "only_moves", "wraps"]


class Movement(Enum):
    """The origin of a scalar."""

    MOVED = "an element of an operand, or a number of the definition or an attribute; its place depends on the index"
    CHOSEN = "one of several such scalars, chosen by their values"
    NEGATED = "minus such a scalar"
    COMPUTED = "the result of arithmetic"


def movement(
    operator: Operator, operands: Sequence[Operand | None], attrs: Mapping[str, Any], shape: Sizes
) -> Movement:
    """Return the origin of the elements of the operator's (first) output, which has this shape.

    A composite operator counts as COMPUTED: a runtime may evaluate it in another way than by its equations.
    """
    if operator.meaning is None:
        return Movement.COMPUTED
    index = tuple(0 if size == 1 else _PLACE for size in shape)
    given = [None if x is None else Operand(x.shape, x.dtype, lambda *place: Movement.MOVED) for x in operands]
    return _kind(operator.meaning(_Origins(), given, {"index": 0, **attrs}, shape, index))


def wraps(operator: Operator, operands: Sequence[Operand | None], attrs: Mapping[str, Any], shape: Sizes) -> bool:
    """Return True if an integer result may leave the range of its type and must be wrapped.

    A computed result may leave it, because definitions are formulas over all integers.
    """
    given = (Movement.MOVED, Movement.CHOSEN)
    return not operator.in_range and movement(operator, operands, attrs, shape) not in given


def only_moves(term: Term) -> bool:
    """Return True if each output element of the typed operator is an unchanged element of an operand, or a number.

    A change of the element type is no movement: later operations round differently.
    """
    result = term.types[0]
    if term.op not in OPERATORS or result is None or result.shape is None:
        return False
    operands: list[Operand | None] = []
    for position, used in enumerate(term.inputs):
        type = None if used is None else used.type
        if used is not None and (type is None or type.shape is None):
            return False
        is_index = position in OPERATORS[term.op].index_operands
        if type is not None and type.dtype != result.dtype and not is_index:
            return False
        shape = None if type is None else type.shape
        operands.append(None if shape is None else Operand(shape, result.dtype, _nowhere))
    try:
        return movement(OPERATORS[term.op], operands, dict(term.attrs), result.shape) is Movement.MOVED
    except NoSemantics:
        return False


def _nowhere(*index: Size) -> Any:
    raise AssertionError("an operand of which only the shape is asked for")


# A symbol for an arbitrary index.
_PLACE = symbol("i!")
# The origin of a scalar. A known number is kept as a Fraction, because its negation is a known number too.
_Scalar: TypeAlias = Movement | Fraction


def _kind(scalar: _Scalar) -> Movement:
    return Movement.MOVED if isinstance(scalar, Fraction) else scalar


def _negated(scalar: _Scalar) -> _Scalar:
    if isinstance(scalar, Fraction):
        return -scalar
    if scalar is Movement.COMPUTED:
        return scalar
    return Movement.CHOSEN if scalar is Movement.NEGATED else Movement.NEGATED


def _one_of(scalars: Iterable[_Scalar]) -> _Scalar:
    """Return the origin of one of these scalars, chosen by value.

    Known numbers are compatible with either sign, because min(x, 1) is -max(-x, -1).
    """
    kinds = {scalar for scalar in scalars if not isinstance(scalar, Fraction)}
    if kinds <= {Movement.MOVED, Movement.CHOSEN}:
        return Movement.CHOSEN
    return Movement.NEGATED if kinds == {Movement.NEGATED} else Movement.COMPUTED


class _Origins:
    """The algebra of origins. Arithmetic is COMPUTED, except the product with -1."""

    def constant(self, value: Fraction) -> _Scalar:
        return value

    def real(self, name: str) -> _Scalar:
        return Movement.MOVED

    def size(self, value: Size) -> _Scalar:
        return Movement.COMPUTED

    def access(self, tensor: str, index: Sizes) -> _Scalar:
        return Movement.MOVED

    def data_index(self, value: _Scalar, size: Size) -> Size:
        return _PLACE

    def entry(self, table: Table, index: Sizes) -> _Scalar:
        return Movement.MOVED

    def add(self, *parts: _Scalar) -> _Scalar:
        return parts[0] if len(parts) == 1 else Movement.COMPUTED

    def multiply(self, left: _Scalar, right: _Scalar) -> _Scalar:
        return _negated(right) if left == Fraction(-1) else Movement.COMPUTED

    def apply(self, function: str, *arguments: _Scalar) -> _Scalar:
        """Return CHOSEN for casts such as `to_int8`, whose results are in range, else COMPUTED."""
        return Movement.CHOSEN if function.startswith(("to_", "from_real_to_")) else Movement.COMPUTED

    def choose(self, relation: str, value: _Scalar, yes: _Scalar, no: _Scalar) -> _Scalar:
        return _one_of([yes, no])

    def maximum(self, parts: Sequence[_Scalar]) -> _Scalar:
        return parts[0] if len(parts) == 1 else _one_of(parts)

    def supremum(
        self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., _Scalar]
    ) -> _Scalar:
        return _one_of([body(*[_PLACE] * len(sizes))])

    def summation(self, size: Size, body: Callable[[Size], _Scalar]) -> _Scalar:
        return Movement.COMPUTED

    def product(self, size: Size, body: Callable[[Size], _Scalar]) -> _Scalar:
        return Movement.COMPUTED

    def where(self, conditions: Sequence[Guard], body: Callable[[], _Scalar]) -> _Scalar:
        return Movement.COMPUTED

    def piecewise(self, pieces: Sequence[Piece], otherwise: _Scalar | None) -> _Scalar:
        """Return MOVED if every piece is: the conditions depend on the index alone."""
        parts = [body() for _, body in pieces] + ([] if otherwise is None else [otherwise])
        return Movement.MOVED if all(_kind(part) is Movement.MOVED for part in parts) else _one_of(parts)
