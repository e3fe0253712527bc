"""Scalars as trees of rounded operations: equal trees are equal bit for bit in IEEE arithmetic.

Only two kinds of operators may occur: those that move data, and those whose result IEEE 754 determines (one correctly
rounded operation, a comparison, a sign). Nothing is assumed about the evaluation of other operators. The only law of
arithmetic used is that addition and multiplication of two numbers commute. Moved data is expressed by `piecewise` and
`access`, as in proofs over the reals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from superopt.ir.dim import Size, Sizes
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, topological
from superopt.ops.algebra import Guard, Piece, Table
from superopt.ops.movement import only_moves
from verify.prove.sums import Apply, Product, SumOfProducts, only_factor, single
from verify.prove.symbolic import Symbolic, data_index

__all__ = ["COMMUTATIVE", "Floating", "Inexact", "rounds_exactly"]

# The IEEE operations (`Operator.ieee`) that definitions express by `maximum`.
_MAXIMA = frozenset({"abs", "maximum"})


# IEEE addition and multiplication do not depend on the order of their two operands.
COMMUTATIVE = frozenset({"plus", "times"})


class Inexact(Exception):
    """A scalar that IEEE 754 does not determine, such as a sum of several products in no fixed order."""


def rounds_exactly(terms: Iterable[Term]) -> bool:
    """Return True if IEEE 754 determines the result of every operator in `terms`.

    Relu and Abs are both defined by `maximum` but treat a negative zero differently, so only one of them may occur.
    """
    found = list(topological(terms))
    operations = {OPERATORS[term.op].ieee for term in found if term.op in OPERATORS}
    negative_zero = any(_is_negative_zero(value) for term in found for _, value in term.attrs)
    return len(operations & _MAXIMA) <= 1 and not negative_zero and all(map(_has_one_result, found))


def _has_one_result(term: Term) -> bool:
    """Return True for leaves, for one operation of IEEE 754-2019 (section 5), and for data movement."""
    return term.op in ("Var", "Out") or (term.op in OPERATORS and bool(OPERATORS[term.op].ieee)) or only_moves(term)


def _is_negative_zero(value: object) -> bool:
    """Return True for -0.0, which compares equal to 0."""
    return isinstance(value, float) and value == 0 and math.copysign(1, value) < 0


class Floating:
    """The algebra of rounded operations: each is an uninterpreted function; two summands or two factors commute.

    A scalar is a sum of the algebra `sums`: one product of one factor, or several guarded ones for data in pieces.
    """

    def __init__(self, dtypes: Mapping[str, str]) -> None:
        self.sums = Symbolic(dtypes, careful=True)

    def constant(self, value: Fraction) -> SumOfProducts:
        return _tree(f"constant {value}")

    def real(self, name: str) -> SumOfProducts:
        return _tree(f"attribute {name}")

    def size(self, value: Size) -> SumOfProducts:
        raise Inexact

    def access(self, tensor: str, index: Sizes) -> SumOfProducts:
        return self.sums.access(tensor, index)

    def data_index(self, value: SumOfProducts, size: Size) -> Size:
        return data_index(value, size)

    def entry(self, table: Table, index: Sizes) -> SumOfProducts:
        raise Inexact

    def add(self, *parts: SumOfProducts) -> SumOfProducts:
        if len(parts) > 2:
            raise Inexact
        return parts[0] if len(parts) == 1 else _tree("plus", *parts)

    def multiply(self, left: SumOfProducts, right: SumOfProducts) -> SumOfProducts:
        return _tree("times", left, right)

    def apply(self, function: str, *arguments: SumOfProducts) -> SumOfProducts:
        return _tree(f"rounded {function}", *arguments)

    def choose(self, relation: str, value: SumOfProducts, yes: SumOfProducts, no: SumOfProducts) -> SumOfProducts:
        return _tree(f"choose {relation}", value, yes, no)

    def maximum(self, parts: Sequence[SumOfProducts]) -> SumOfProducts:
        """max(max(x, c), c) = max(x, c), however the runtime treats NaN and zeros of different signs."""
        first, *rest = parts
        inner = only_factor(first)
        if isinstance(inner, Apply) and inner.function == "maximum" and inner.arguments[1:] == tuple(rest):
            return first
        return _tree("maximum", *parts)

    def supremum(
        self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., SumOfProducts]
    ) -> SumOfProducts:
        raise Inexact

    def summation(self, size: Size, body: Callable[[Size], SumOfProducts]) -> SumOfProducts:
        raise Inexact

    def product(self, size: Size, body: Callable[[Size], SumOfProducts]) -> SumOfProducts:
        raise Inexact

    def where(self, conditions: Sequence[Guard], body: Callable[[], SumOfProducts]) -> SumOfProducts:
        raise Inexact

    def piecewise(self, pieces: Sequence[Piece], otherwise: SumOfProducts | None) -> SumOfProducts:
        """Return the sum of the pieces under their conditions, and of `otherwise` where no piece applies."""
        found: list[Product] = []
        rest: list[tuple[Guard, ...]] = [()]
        for conditions, body in pieces:
            open_ones = tuple(c for c in conditions if c.decided() is not True)
            if all(c.decided() is not False for c in open_ones):
                found += [Product(p.coefficient, p.factors, p.binders, open_ones + p.guards) for p in body()]
            if otherwise:  # their number is exponential in the number of pieces
                rest = [(*done, *more) for done in rest for more in _contraries(open_ones)]
        found += [
            Product(p.coefficient, p.factors, p.binders, done + p.guards) for done in rest for p in otherwise or ()
        ]
        return tuple(p for p in found if all(g.decided() is not False for g in p.guards))


def _tree(name: str, *arguments: SumOfProducts) -> SumOfProducts:
    return single(Apply(name, arguments))


def _contraries(conditions: Sequence[Guard]) -> list[tuple[Guard, ...]]:
    """Return disjoint cases whose union is the negation of the conjunction of `conditions`."""
    cases: list[tuple[Guard, ...]] = []
    before: tuple[Guard, ...] = ()
    for guard in conditions:
        if guard.relation == "==":
            sides = [Guard("<=", -guard.value - 1), Guard("<=", guard.value - 1)]
        else:
            sides = [guard.negated()]
        cases += [(*before, side) for side in sides]
        before = (*before, guard)
    return cases
