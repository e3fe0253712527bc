"""The computation of an element as a tree, to recognize two that round alike.

Rules that move data, such as Gather(LayerNormalization(x)) = LayerNormalization(Gather(x)), have the same operations on
the same elements on both sides. An error bound is a function of this tree, so the bounds are equal too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Size, Sizes, symbol
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.algebra import Guard, Piece, Table
from superopt.ops.meaning import Meaning
from verify.stability.algorithms import as_computed, is_computed_by_others

__all__ = ["computes_alike"]


def computes_alike(left: Term, right: Term, place: Sizes) -> bool:
    """Return True if both terms compute their element at the index `place` by the same tree of operations.

    Only terms whose parts all have one type of real numbers are compared, because trees do not show where a number is
    rounded to another type. Operands that are nothing but indices may have another type. Raises NoSemantics.
    """
    dtypes = {type.dtype if type is not None else None for term in _rounded((left, right)) for type in term.types}
    if len(dtypes) != 1 or not dtypes <= FLOAT_DTYPES:
        return False
    trees = _Trees()
    return bool(_Computation(trees).scalar(left, place) == _Computation(trees).scalar(right, place))


def _rounded(roots: Iterable[Term]) -> set[Term]:
    """Return the terms, and the operands of each, without those that are nothing but indices."""
    found: set[Term] = set()
    stack = list(roots)
    while stack:
        term = stack.pop()
        if term not in found:
            found.add(term)
            indices = OPERATORS[term.op].index_operands if term.op in OPERATORS else ()
            stack += [x for k, x in enumerate(term.inputs) if x is not None and k not in indices]
    return found


class _Computation(Meaning):
    """Evaluates terms to trees, those of operators that the runtime computes otherwise as it computes them.

    What decides on a rounding beside the operations themselves is part of the tree: where a sum ends, because a sum
    over several indices is rounded as one; and a difference or quotient of one number and itself, which is exact.
    """

    algebra: _Trees

    def scalar(self, term: Term, index: Sizes) -> Any:
        return self.algebra.ended(super().scalar(term, index))

    def _define(self, term: Term, index: Sizes) -> Any:
        if is_computed_by_others(term):
            return self.scalar(as_computed(term), index)
        found = super()._define(term, index)
        of_itself = len(term.inputs) == 2 and term.inputs[0] == term.inputs[1]
        return self.algebra.tree("of itself", found) if of_itself else found


class _Trees:
    """The algebra of trees. A tree is a number, the same for equal trees; a bound variable is named by its depth."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._open = set[int]()  # sums that an enclosing sum extends
        self._depth = 0

    def tree(self, *parts: Any) -> int:
        """Return the tree of an operation and its operands."""
        return self._numbers.setdefault(parts, len(self._numbers))

    def ended(self, tree: int) -> int:
        """Return the result of an operator that ends with `tree`."""
        return self.tree("end", tree) if tree in self._open else tree

    def constant(self, value: Fraction) -> int:
        return self.tree("constant", value)

    def real(self, name: str) -> int:
        return self.tree("real", name)

    def size(self, value: Size) -> int:
        return self.tree("size", value)

    def access(self, tensor: str, index: Sizes) -> int:
        return self.tree("access", tensor, tuple(index))

    def data_index(self, value: int, size: Size) -> Size:
        return symbol(f"index!{self.tree('index', value, size)}")

    def entry(self, table: Table, index: Sizes) -> int:
        return self.tree("entry", table, tuple(index))

    def add(self, *parts: int) -> int:
        return self.tree("add", *parts)

    def multiply(self, left: int, right: int) -> int:
        return self.tree("multiply", left, right)

    def apply(self, function: str, *arguments: int) -> int:
        return self.tree("apply", function, *arguments)

    def choose(self, relation: str, value: int, yes: int, no: int) -> int:
        return self.tree("choose", relation, value, yes, no)

    def maximum(self, parts: Sequence[int]) -> int:
        return self.tree("maximum", *parts)

    def summation(self, size: Size, body: Callable[[Size], int]) -> int:
        if size == 1:
            return body(0)
        found = self.tree("sum", size, self._bound(body))
        self._open.add(found)
        return found

    def product(self, size: Size, body: Callable[[Size], int]) -> int:
        return body(0) if size == 1 else self.tree("product", size, self._bound(body))

    def supremum(self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., int]) -> int:
        def inside(*place: Size) -> int:
            return self.tree(tuple(conditions(*place)), body(*place))

        return self.tree("supremum", tuple(sizes), self._bound(inside, len(sizes)))

    def where(self, conditions: Sequence[Guard], body: Callable[[], int]) -> int:
        inside = body()
        found = self.tree("where", tuple(conditions), inside)
        if inside in self._open:
            self._open.add(found)
        return found

    def piecewise(self, pieces: Sequence[Piece], otherwise: int | None) -> int:
        possible = [piece for piece in pieces if not any(guard.decided() is False for guard in piece[0])]
        moved: list[tuple[tuple[Guard, ...], int]] = [(tuple(conditions), body()) for conditions, body in possible]
        if len(moved) == 1 and all(guard.decided() for guard in moved[0][0]):  # of a Concat, at a known index
            return moved[0][1]
        return self.tree("pieces", *moved, otherwise)

    def _bound(self, body: Callable[..., int], count: int = 1) -> int:
        names = [symbol(f"bound!{self._depth + k}") for k in range(count)]
        self._depth += count
        try:
            return body(*names)
        finally:
            self._depth -= count
