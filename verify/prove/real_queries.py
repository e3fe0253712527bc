"""Decide facts about real numbers: polynomial constraints on otherwise unconstrained unknowns.

Only Z3's answer `unsat` counts, as in `verify.prove.facts`. Most queries have solutions (94% of those in 300 proofs).
A few points are tried first, which takes far less time than Z3.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import z3

__all__ = ["Constraint", "Polynomial", "RealQuery", "encoded_query", "has_known_solution", "refuted"]

_RESOURCES = 1_000_000
# The points that are tried: unknown k takes the value at place start + k * step of this list, cyclically.
_VALUES = (1.0, 0.5, 2.0, -1.0, 0.25, 3.0, -0.5, 0.75, -2.0, 0.0, 0.125)
_STEPS = range(len(_VALUES))
_SURELY = 1e-9  # beyond rounding errors of sums of these values

# A polynomial: the coefficient and the unknowns of each monomial.
Polynomial: TypeAlias = tuple[tuple[Fraction, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Constraint:
    """The constraint `polynomial relation 0`: one of > >= == !=, or "truth" for an unknown that is 0 or 1."""

    relation: str
    polynomial: Polynomial

    def negated(self) -> Constraint:
        """Return the negated constraint."""
        match self.relation:
            case ">" | ">=":
                minus = tuple((-coefficient, unknowns) for coefficient, unknowns in self.polynomial)
                return Constraint(">=" if self.relation == ">" else ">", minus)
            case "==" | "!=":
                return Constraint("!=" if self.relation == "==" else "==", self.polynomial)
        raise ValueError(self.relation)


@dataclass(frozen=True)
class RealQuery:
    """Constraints that Z3 is asked to refute: no point satisfies all of them."""

    constraints: tuple[Constraint, ...]


def has_known_solution(query: RealQuery) -> bool:
    """Return True if one of a few points satisfies all constraints. Rounding can lose a proof, but never make one."""
    try:
        constraints = [
            (c.relation, [(float(coefficient), unknowns) for coefficient, unknowns in c.polynomial])
            for c in query.constraints
        ]
    except OverflowError:
        return False
    return any(
        all(_satisfies(relation, polynomial, start, step) for relation, polynomial in constraints)
        for start, step in itertools.product(_STEPS, (0, 1, 3))
    )


def _satisfies(relation: str, polynomial: list[tuple[float, tuple[int, ...]]], start: int, step: int) -> bool:
    """Return True if the constraint holds where unknown k is the value at place start + k * step."""
    count = len(_VALUES)
    value = sum([c * math.prod([_VALUES[(start + k * step) % count] for k in unknowns]) for c, unknowns in polynomial])
    match relation:
        case ">":
            return value > _SURELY
        case ">=":
            return value >= 0
        case "==":
            return value == 0
        case "!=":
            return abs(value) > _SURELY
    return value in (0, 1)


def encoded_query(query: RealQuery, context: z3.Context) -> list[z3.BoolRef]:
    """Return the constraints as Z3 expressions."""
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
