"""Evaluation of terms in an algebra: the scalar at an index of a term, from the definitions of its operators.

A composite operator has the meaning of its unfolding (`superopt.ops.equation`).
"""

from __future__ import annotations

from typing import Any

from superopt.ir.dim import Sizes
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, node_of
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.algebra import Algebra
from superopt.ops.definition import NoSemantics, Operand
from superopt.ops.equation import unfold
from superopt.ops.movement import wraps

__all__ = ["Meaning", "NoSemantics"]


class Meaning:
    """Computes scalars of typed terms in one algebra, once for each (term, index)."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self._known: dict[tuple[Term, Sizes], Any] = {}

    def scalar(self, term: Term, index: Sizes) -> Any:
        """Return the scalar of `term` at `index` (one entry for each axis).

        Raises NoSemantics for an operator without a definition, or for integers that the runtime computes otherwise.
        """
        key = (term, index)
        if key not in self._known:
            self._known[key] = self._define(term, index)
        return self._known[key]

    def _define(self, term: Term, index: Sizes) -> Any:
        if term.op == "Var":
            return self.algebra.access(str(term.attr("name")), index)
        node, extra = node_of(term), {} if term.op != "Out" else {"index": term.attr("index")}
        if node.op not in OPERATORS:
            raise NoSemantics(node.op)
        shape, dtype = _type(term)
        operator, attrs = OPERATORS[node.op], {**dict(node.attrs), **extra}
        if operator.integers == "floating" and dtype not in FLOAT_DTYPES:
            raise NoSemantics(f"{node.op} of {dtype}")
        if operator.meaning is None:
            return self.scalar(unfold(term), index)
        operands = [None if x is None else self._operand(x) for x in node.inputs]
        value = operator.meaning(self.algebra, operands, attrs, shape, index)
        if dtype not in FLOAT_DTYPES and dtype != "bool" and wraps(operator, operands, attrs, shape):
            return self.algebra.apply(f"to_{dtype}", value)
        return value

    def _operand(self, term: Term) -> Operand:
        shape, dtype = _type(term)
        return Operand(shape, dtype, lambda *index: self.scalar(term, tuple(index)))


def _type(term: Term) -> tuple[Sizes, str]:
    if term.type is None or term.type.shape is None:
        raise NoSemantics(f"{term.op} of unknown shape")
    return term.type.shape, term.type.dtype
