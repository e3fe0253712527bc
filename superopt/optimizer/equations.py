"""Rules on one line, also those of very many operators."""

from __future__ import annotations

from superopt.ir.notation import show_graph, show_rule
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological

__all__ = ["show_equation"]

_LONGEST = 1000  # operators, written out as trees


def show_equation(rule: Rule) -> str:
    """The equation; of many steps one after the other, as which a line would be too long, with names for what is
    shared."""
    size: dict[Term, int] = {}
    for term in topological((*rule.lhs, *rule.rhs)):
        size[term] = 1 + sum(size[i] for i in term.inputs if i is not None)
    if sum(size[root] for root in (*rule.lhs, *rule.rhs)) <= _LONGEST:
        return show_rule(Rule(rule.lhs, rule.rhs))
    return " = ".join(map(_in_steps, (rule.lhs, rule.rhs)))


def _in_steps(side: tuple[Term, ...]) -> str:
    # A rule's variables have no types, so a list of them would say nothing.
    return "; ".join(line for line in show_graph(side).splitlines() if not line.startswith("input "))
