"""The reading of a definition as an expression: the scalar at an index, as it is written down.

Properties of operators (`superopt.properties`) and counts of arithmetic are read off these expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from superopt.ir.dim import Dim, Size, Sizes, symbol
from superopt.ops.algebra import Guard, Piece, Table

__all__ = ["Expression", "Recorder"]


@dataclass(frozen=True, eq=False, slots=True)
class Expression:
    """One operation of an `Algebra`. `head` is its name; of one recorder, equal expressions are the same object.

    `detail` has what is no scalar: (operand, index) of an access, the value of a constant, the name of a function, the
    relation of a choice, (index symbols, sizes) of a sum, product or supremum, the conditions of pieces.
    """

    head: str
    args: tuple[Expression, ...] = ()
    detail: Hashable = None
    reads: bool = False  # some operand's element

    @property
    def is_minus_one(self) -> bool:
        """The constant -1: a product with it is a change of sign."""
        return self.head == "constant" and self.detail == Fraction(-1)


class Recorder:
    """Scalars as expressions. The index of a sum over m inside n others is called `k!n!m`, whichever sum it is."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Expression] = {}
        self._depth = 0

    def _of(self, head: str, args: Sequence[Expression] = (), detail: Hashable = None) -> Expression:
        key = (head, tuple(map(id, args)), detail)
        if key not in self._made:
            reads = head == "access" or any(arg.reads for arg in args)
            self._made[key] = Expression(head, tuple(args), detail, reads)
        return self._made[key]

    def constant(self, value: Fraction) -> Expression:
        return self._of("constant", detail=value)

    def real(self, name: str) -> Expression:
        return self._of("real", detail=name)

    def size(self, value: Size) -> Expression:
        return self._of("size", detail=value)

    def access(self, tensor: str, index: Sizes) -> Expression:
        return self._of("access", detail=(tensor, index))

    def entry(self, table: Table, index: Sizes) -> Expression:
        return self._of("entry", detail=(table, index))

    def add(self, *parts: Expression) -> Expression:
        return parts[0] if len(parts) == 1 else self._of("add", parts)

    def multiply(self, left: Expression, right: Expression) -> Expression:
        return self._of("multiply", (left, right))

    def apply(self, function: str, *arguments: Expression) -> Expression:
        return self._of("apply", arguments, function)

    def choose(self, relation: str, value: Expression, yes: Expression, no: Expression) -> Expression:
        return self._of("choose", (value, yes, no), relation)

    def maximum(self, parts: Sequence[Expression]) -> Expression:
        return parts[0] if len(parts) == 1 else self._of("maximum", parts)

    def summation(self, size: Size, body: Callable[[Size], Expression]) -> Expression:
        return self._bound("sum", (size,), body)

    def product(self, size: Size, body: Callable[[Size], Expression]) -> Expression:
        return self._bound("product", (size,), body)

    def supremum(
        self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., Expression]
    ) -> Expression:
        return self._bound("supremum", sizes, body)

    def where(self, conditions: Sequence[Guard], body: Callable[[], Expression]) -> Expression:
        return self._of("where", (body(),), tuple(conditions))

    def piecewise(self, pieces: Sequence[Piece], otherwise: Expression | None) -> Expression:
        bodies = [body() for _, body in pieces] + ([] if otherwise is None else [otherwise])
        return self._of("piecewise", bodies, tuple(tuple(conditions) for conditions, _ in pieces))

    def _bound(self, head: str, sizes: Sizes, body: Callable[..., Expression]) -> Expression:
        indices: list[Dim] = []
        for size in sizes:
            indices.append(symbol(f"k!{self._depth}!{size}"))
            self._depth += 1
        try:
            return self._of(head, (body(*indices),), (tuple(indices), sizes))
        finally:
            self._depth -= len(sizes)
