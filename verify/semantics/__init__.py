"""What each operator means: the scalar at an index of its output, from the scalars of its inputs.

One function an operator, one module a family, in the notation of the ONNX specification (the operator's page is the
source of each formula). Shapes come from `superopt.ir.operators`. Everything else in the kernel is derived from these
definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ir.term import Term
from superopt.ir.types import FLOAT_DTYPES
from verify.algebra import Algebra
from verify.semantics import (
    constants,
    contrib,
    conv,
    elementwise,
    layout,
    linear,
    logic,
    normalization,
    pool,
    rearrange,
    recurrent,
    reduce,
    scalar,
    select,
)
from verify.semantics.common import Definition, NoSemantics, Operand

__all__ = ["SELECTING", "SEMANTICS", "Meaning", "NoSemantics"]

_FAMILIES = (
    constants,
    contrib,
    conv,
    elementwise,
    layout,
    linear,
    logic,
    normalization,
    pool,
    rearrange,
    recurrent,
    reduce,
    scalar,
    select,
)
SEMANTICS: Mapping[str, Definition] = {
    name: definition for family in _FAMILIES for name, definition in family.DEFINITIONS.items()
}


# Operators that give one of the elements that they are given (or a number that they are given): all others compute, and
# their integer results wrap around. Their definitions are formulas over all integers.
SELECTING = frozenset(
    {
        "Cast", "Clip", "Concat", "ConstantOfShape", "DepthToSpace", "Dirac", "Expand", "Eye", "Flatten", "Gather",
        "GlobalMaxPool", "Identity", "Max", "MaxPool", "Min", "Ones", "Pad", "ReduceMax", "ReduceMin", "Relu",
        "Reshape", "Resize", "Sign", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Trilu",
        "Unsqueeze", "Where", "Zeros",
    }
)  # fmt: skip


class Meaning:
    """Scalars of typed terms in one algebra, each (term, index) computed once."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self._known: dict[tuple[Term, Sizes], Any] = {}

    def scalar(self, term: Term, index: Sizes) -> Any:
        """The scalar of `term` at `index` (one entry an axis). Raises NoSemantics."""
        key = (term, index)
        if key not in self._known:
            self._known[key] = self._define(term, index)
        return self._known[key]

    def _define(self, term: Term, index: Sizes) -> Any:
        if term.op == "Var":
            return self.algebra.access(str(term.attr("name")), index)
        node, extra = term, {}
        if term.op == "Out":
            (inner,) = term.inputs
            assert inner is not None
            node, extra = inner, {"index": term.attr("index")}
        if node.op not in SEMANTICS:
            raise NoSemantics(node.op)
        operands = [None if x is None else self._operand(x) for x in node.inputs]
        shape, dtype = _type(term)
        value = SEMANTICS[node.op](self.algebra, operands, {**dict(node.attrs), **extra}, shape, index)
        if node.op not in SELECTING and dtype not in FLOAT_DTYPES and dtype != "bool":
            return self.algebra.apply(f"to_{dtype}", value)
        return value

    def _operand(self, term: Term) -> Operand:
        shape, dtype = _type(term)
        return Operand(shape, dtype, lambda *index: self.scalar(term, tuple(index)))


def _type(term: Term) -> tuple[Sizes, str]:
    if term.type is None or term.type.shape is None:
        raise NoSemantics(f"{term.op} of unknown shape")
    return term.type.shape, term.type.dtype
