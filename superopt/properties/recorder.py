"""Records a definition as an expression: the syntax tree of the scalar at an index.

Properties of operators (`superopt.properties`) and counts of arithmetic are computed from these expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from superopt.ir.dim import Dim, Size, Sizes, symbol
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import TensorType
from superopt.ops.algebra import Guard, Piece, Table
from superopt.ops.meaning import Meaning

__all__ = ["Expression", "Recorder", "record"]


@dataclass(frozen=True, eq=False, slots=True)
class Expression:
    """One operation of an `Algebra`. `head` is its name. Equal expressions of one recorder are the same object.

    `detail` has the arguments that are not scalars: (operand, index) of an access, the value of a constant, the name
    of a function, the relation of a choice, (index symbols, sizes) of a sum, product or supremum, the conditions of
    pieces.
    """

    head: str
    args: tuple[Expression, ...] = ()
    detail: Hashable = None
    reads: bool = False  # True if it depends on an element of an operand

    @property
    def is_minus_one(self) -> bool:
        """The constant -1: a product with it is a change of sign."""
        return self.head == "constant" and self.detail == Fraction(-1)


class Recorder:
    """An algebra whose scalars are expressions.

    The bound index of a sum of size m that is nested in n other sums is called `k!n!m`, so that equal sums are equal
    expressions.
    """

    def __init__(self) -> None:
        self._interned: dict[Hashable, Expression] = {}
        self._indices: dict[Hashable, str] = {}
        self._depth = 0

    def _expression(self, head: str, args: Sequence[Expression] = (), detail: Hashable = None) -> Expression:
        key = (head, tuple(map(id, args)), detail)
        if key not in self._interned:
            reads = head == "access" or any(arg.reads for arg in args)
            self._interned[key] = Expression(head, tuple(args), detail, reads)
        return self._interned[key]

    def constant(self, value: Fraction) -> Expression:
        return self._expression("constant", detail=value)

    def real(self, name: str) -> Expression:
        return self._expression("real", detail=name)

    def size(self, value: Size) -> Expression:
        return self._expression("size", detail=value)

    def access(self, tensor: str, index: Sizes) -> Expression:
        return self._expression("access", detail=(tensor, index))

    def data_index(self, value: Expression, size: Size) -> Size:
        """Return a symbol, the same one for equal expressions and sizes."""
        if size == 1:
            return 0
        return symbol(self._indices.setdefault((id(value), size), f"index!{len(self._indices)}"))

    def entry(self, table: Table, index: Sizes) -> Expression:
        return self._expression("entry", detail=(table, index))

    def add(self, *parts: Expression) -> Expression:
        return parts[0] if len(parts) == 1 else self._expression("add", parts)

    def multiply(self, left: Expression, right: Expression) -> Expression:
        return self._expression("multiply", (left, right))

    def apply(self, function: str, *arguments: Expression) -> Expression:
        return self._expression("apply", arguments, function)

    def choose(self, relation: str, value: Expression, yes: Expression, no: Expression) -> Expression:
        return self._expression("choose", (value, yes, no), relation)

    def maximum(self, parts: Sequence[Expression]) -> Expression:
        return parts[0] if len(parts) == 1 else self._expression("maximum", parts)

    def summation(self, size: Size, body: Callable[[Size], Expression]) -> Expression:
        return self._bound("sum", (size,), body)

    def product(self, size: Size, body: Callable[[Size], Expression]) -> Expression:
        return self._bound("product", (size,), body)

    def supremum(
        self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., Expression]
    ) -> Expression:
        return self._bound("supremum", sizes, body)

    def where(self, conditions: Sequence[Guard], body: Callable[[], Expression]) -> Expression:
        return self._expression("where", (body(),), tuple(conditions))

    def piecewise(self, pieces: Sequence[Piece], otherwise: Expression | None) -> Expression:
        bodies = [body() for _, body in pieces] + ([] if otherwise is None else [otherwise])
        return self._expression("piecewise", bodies, tuple(tuple(conditions) for conditions, _ in pieces))

    def _bound(self, head: str, sizes: Sizes, body: Callable[..., Expression]) -> Expression:
        indices: list[Dim] = []
        for size in sizes:
            indices.append(symbol(f"k!{self._depth}!{size}"))
            self._depth += 1
        try:
            return self._expression(head, (body(*indices),), (tuple(indices), sizes))
        finally:
            self._depth -= len(sizes)


def record(
    op: str,
    attrs: Mapping[str, Attr],
    inputs: Sequence[TensorType | None],
    results: Sequence[TensorType | None],
    output: int = 0,
) -> Expression:
    """Return the scalar of one output at the index (i!0, i!1, ...), for operands of these types.

    Operand k is called `k`. Raises NoSemantics and NoValue.
    """
    operands = [None if type is None else var(str(k), type) for k, type in enumerate(inputs)]
    term = Term.of(op, operands, attrs, tuple(results))
    type = results[output]
    index = tuple(symbol(f"i!{d}") for d in range(len(type.shape or ()) if type is not None else 0))
    found: Expression = Meaning(Recorder()).scalar(term.out(output) if len(results) > 1 else term, index)
    return found
