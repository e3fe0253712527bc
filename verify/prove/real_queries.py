"""Deciding facts about real numbers: polynomials in unknowns that nothing else is known about, by Z3.

`unsat` is the only answer that counts, as in `verify.prove.facts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import z3

__all__ = ["Constraint", "Polynomial", "RealQuery", "encoded_query", "refuted"]

_RESOURCES = 1_000_000

# A polynomial: coefficient and unknowns of each monomial.
Polynomial: TypeAlias = tuple[tuple[Fraction, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Constraint:
    """`polynomial relation 0`, the relation one of > >= == !=; "truth": the one unknown is 0 or 1."""

    relation: str
    polynomial: Polynomial

    def negated(self) -> Constraint:
        """Its contrary."""
        match self.relation:
            case ">" | ">=":
                minus = tuple((-coefficient, unknowns) for coefficient, unknowns in self.polynomial)
                return Constraint(">=" if self.relation == ">" else ">", minus)
            case "==" | "!=":
                return Constraint("!=" if self.relation == "==" else "==", self.polynomial)
        raise ValueError(self.relation)


@dataclass(frozen=True)
class RealQuery:
    """Is there a point at which all constraints hold? Z3 found that there is none."""

    constraints: tuple[Constraint, ...]


def encoded_query(query: RealQuery, context: z3.Context) -> list[z3.BoolRef]:
    """The constraints in Z3's terms."""
    return [_encoded(c, context) for c in query.constraints]


def refuted(query: RealQuery, context: z3.Context) -> bool:
    """Return True if Z3 shows that no point satisfies all constraints. False means "not shown"."""
    solver = z3.SolverFor("QF_NRA", ctx=context) if _nonlinear(query) else z3.SimpleSolver(ctx=context)
    solver.set("ctrl_c", False)  # else an interrupt is answered by "unknown", and goes unheard
    solver.set("rlimit", _RESOURCES)
    solver.add(encoded_query(query, context))
    return bool(solver.check() == z3.unsat)


def _nonlinear(query: RealQuery) -> bool:
    return any(len(unknowns) > 1 for c in query.constraints for _, unknowns in c.polynomial)


def _encoded(constraint: Constraint, context: z3.Context) -> z3.BoolRef:
    terms = []
    for coefficient, unknowns in constraint.polynomial:
        term = z3.RealVal(f"{coefficient.numerator}/{coefficient.denominator}", context)
        for unknown in unknowns:
            term = term * z3.Real(f"r{unknown}", context)
        terms.append(term)
    value = z3.Sum(terms) if len(terms) > 1 else terms[0] if terms else z3.RealVal(0, context)
    match constraint.relation:
        case ">":
            return value > 0
        case ">=":
            return value >= 0
        case "==":
            return value == 0
        case "!=":
            return value != 0
        case "truth":
            return z3.Or(value == 0, value == 1)
    raise ValueError(constraint.relation)
