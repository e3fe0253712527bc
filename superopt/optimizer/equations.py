"""Printing of rules on one line, even if they have very many operators."""

from __future__ import annotations

from superopt.ir.notation import show_graph, show_rule
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological

__all__ = ["show_equation"]

_MAX_TREE_OPERATORS = 1000  # of both sides, written out as trees


def show_equation(rule: Rule) -> str:
    """Return the equation of `rule` on one line.

    If its sides, written as trees, have too many operators, each side is a list of assignments, in which shared terms
    are written once.
    """
    size: dict[Term, int] = {}
    for term in topological((*rule.lhs, *rule.rhs)):
        size[term] = 1 + sum(size[i] for i in term.inputs if i is not None)
    if sum(size[root] for root in (*rule.lhs, *rule.rhs)) <= _MAX_TREE_OPERATORS:
        return show_rule(Rule(rule.lhs, rule.rhs))
    return " = ".join(map(_as_assignments, (rule.lhs, rule.rhs)))


def _as_assignments(side: tuple[Term, ...]) -> str:
    # The inputs of a rule have no types, so their lines are left out.
    return "; ".join(line for line in show_graph(side).splitlines() if not line.startswith("input "))
