"""Rules up to the names of their variables, so that equal rules are compiled once."""

from __future__ import annotations

from typing import TypeAlias

from superopt.ir.dim import Dim
from superopt.ir.term import Attr, AttrVar, Term, map_terms, topological

__all__ = ["Sides", "renamed"]

Sides: TypeAlias = tuple[tuple[Term, ...], tuple[Term, ...]]


def renamed(lhs: tuple[Term, ...], rhs: tuple[Term, ...]) -> Sides:
    """Return both sides with variables named in the order in which they occur.

    Attribute variables keep their names. If attributes mention sizes of variables, all names are kept. Two equal rules
    may then count as different, which only costs time.
    """
    sides = (*lhs, *rhs)
    if any(_mentions_sizes(value) for term in topological(sides) for _, value in term.attrs if term.op != "Var"):
        return lhs, rhs
    names: dict[Term, Term] = {}

    def rename(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        if old.op == "Var":
            return names.setdefault(old, Term.of("Var", (), {"name": f"v{len(names)}"}))
        return old.over(inputs)

    new = map_terms(sides, rename)
    return new[: len(lhs)], new[len(lhs) :]


def _mentions_sizes(value: Attr) -> bool:
    if isinstance(value, tuple):
        return any(map(_mentions_sizes, value))
    return isinstance(value, (AttrVar, Dim)) and ".shape" in str(value)
