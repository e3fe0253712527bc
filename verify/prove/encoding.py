"""Guards about integers as formulas of Z3.

An index in a tensor (`DataIndex`) is an unknown in range. Two such indices whose places are equal but are not written
alike are two unknowns, which is a sound weakening.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import z3

from superopt.ir.dim import Atom, DataIndex, Dim, Quotient, Size
from superopt.ops.algebra import Guard

__all__ = ["Encoded", "Encoder"]


@dataclass(frozen=True)
class Encoded:
    """A guard as a formula, what is known of the unknowns of its quotients and of indices in tensors, and True if that
    is weaker than the guard."""

    formula: z3.BoolRef
    definitions: tuple[z3.BoolRef, ...]
    weaker: bool


class Encoder:
    """Encodes sizes as Z3 integers. Unless `exact`, each product of symbols is a fresh unknown (a sound weakening).

    Guards of one proof are sums of the same summands, so each is made once, by Z3's functions in C: its operators in
    Python took four times as long.
    """

    def __init__(self, exact: bool, context: z3.Context) -> None:
        self._exact, self._context = exact, context
        self._zero = z3.IntVal(0, context)
        self._encoded: dict[Guard, Encoded] = {}
        self._unknowns: dict[Atom, z3.ArithRef] = {}
        self._summands: dict[tuple[tuple[Atom, ...], int], z3.ArithRef] = {}

    def encoded(self, guard: Guard) -> Encoded:
        """Return the guard as a formula."""
        if guard not in self._encoded:
            values = [guard.value]
            definitions = []
            known = dict.fromkeys(self._compound(guard.value))
            for atom in (pending := list(known)):  # a definition may mention other quotients
                for value in _bounds(atom) if isinstance(atom, Quotient) else _in_range(atom):
                    values.append(value)
                    definitions.append(self._at_least_zero(value))
                    new = dict.fromkeys(one for one in self._compound(value) if one not in known)
                    known |= new
                    pending += new
            uninterpreted = any(isinstance(atom, DataIndex) for atom in known)
            weaker = uninterpreted or (
                not self._exact and any(len(monomial) > 1 for value in values for monomial in _monomials(value))
            )
            self._encoded[guard] = Encoded(self._formula(guard), tuple(definitions), weaker)
        return self._encoded[guard]

    def unknown(self, atom: Atom) -> z3.ArithRef:
        """Return Z3's integer for a symbol or a quotient."""
        if atom not in self._unknowns:
            name = atom if isinstance(atom, str) else f"quotient {atom}" if isinstance(atom, Quotient) else str(atom)
            self._unknowns[atom] = z3.Int(name, self._context)
        return self._unknowns[atom]

    def value(self, model: z3.ModelRef, name: str) -> int:
        """Return the value of a symbol in `model`; one that does not matter there has some value too."""
        return int(model.eval(self.unknown(name), model_completion=True).as_long())

    def _formula(self, guard: Guard) -> z3.BoolRef:
        if guard.relation != "==":
            return self._at_least_zero(guard.value)
        made = z3.Z3_mk_eq(self._context.ref(), self._size(guard.value).as_ast(), self._zero.as_ast())
        return z3.BoolRef(made, self._context)

    def _at_least_zero(self, value: Size) -> z3.BoolRef:
        made = z3.Z3_mk_ge(self._context.ref(), self._size(value).as_ast(), self._zero.as_ast())
        return z3.BoolRef(made, self._context)

    def _size(self, value: Size) -> z3.ArithRef:
        if isinstance(value, int):
            return z3.IntVal(value, self._context)
        summands = [self._summand(monomial, coefficient) for monomial, coefficient in value.terms]
        if len(summands) == 1:  # SMT-LIB has no sum of one term
            return summands[0]
        return z3.ArithRef(z3.Z3_mk_add(self._context.ref(), len(summands), _array(summands)), self._context)

    def _summand(self, monomial: tuple[Atom, ...], coefficient: int) -> z3.ArithRef:
        key = monomial, coefficient
        if key not in self._summands:
            if not monomial:
                self._summands[key] = z3.IntVal(coefficient, self._context)
            else:
                self._summands[key] = self._product(monomial) * coefficient
        return self._summands[key]

    def _product(self, monomial: tuple[Atom, ...]) -> z3.ArithRef:
        if len(monomial) > 1 and not self._exact:
            return z3.Int("product " + " * ".join(map(str, monomial)), self._context)
        first, *rest = map(self.unknown, monomial)
        for factor in rest:
            first = first * factor
        return first

    def _compound(self, value: Size) -> Iterable[Quotient | DataIndex]:
        """Yield the quotients and the indices in tensors whose unknowns are in the encoded value."""
        for monomial in _monomials(value):
            if len(monomial) == 1 or self._exact:
                yield from (atom for atom in monomial if not isinstance(atom, str))


def _monomials(value: Size) -> Iterable[tuple[Atom, ...]]:
    return () if isinstance(value, int) else (monomial for monomial, _ in value.terms)


def _bounds(quotient: Quotient) -> tuple[Size, Size, Size]:
    """Return what is at least 0 if q = floor(n / d) and 0 < d: n - d*q, d*q + d - 1 - n, and d - 1."""
    n, d = quotient.numerator, quotient.denominator
    product = d * Dim((((quotient,), 1),))
    return n - product, product + d - 1 - n, d - 1


def _in_range(index: DataIndex) -> tuple[Size, Size]:
    """Return what is at least 0 for an index in range: i and n - 1 - i."""
    own = Dim((((index,), 1),))
    return own, index.size - 1 - own


def _array(expressions: list[z3.ArithRef]) -> object:
    return (z3.Ast * len(expressions))(*(expression.as_ast() for expression in expressions))
