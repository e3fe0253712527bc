"""Printing of rules on one line, even if they have very many operators."""

from __future__ import annotations

from superopt.ir.notation import show_graph, show_terms
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological

__all__ = ["show_equation", "show_sides"]

_MAX_TREE_OPERATORS = 1000  # of both sides, written out as trees


def show_equation(rule: Rule) -> str:
    """Return the equation of `rule` on one line."""
    return " = ".join(show_sides(rule))


def show_sides(rule: Rule) -> tuple[str, str]:
    """Return both sides of `rule`, each on one line.

    If the sides, written as trees, have too many operators, each is a list of assignments, in which shared terms are
    written once.
    """
    size: dict[Term, int] = {}
    for term in topological((*rule.lhs, *rule.rhs)):
        size[term] = 1 + sum(size[i] for i in term.inputs if i is not None)
    small = sum(size[root] for root in (*rule.lhs, *rule.rhs)) <= _MAX_TREE_OPERATORS
    show = show_terms if small else _as_assignments
    return show(rule.lhs), show(rule.rhs)


def _as_assignments(side: tuple[Term, ...]) -> str:
    # The inputs of a rule have no types, so their lines are left out.
    return "; ".join(line for line in show_graph(side).splitlines() if not line.startswith("input "))
