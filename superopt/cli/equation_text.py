"""The text of a rule's equation, which several commands print."""

from __future__ import annotations

from superopt.ir.notation import show_rule
from superopt.ir.rule import Rule

__all__ = ["equation_text"]


def equation_text(rule: Rule) -> str:
    """Return the equation of a rule in the notation, without its signatures."""
    return show_rule(Rule(rule.lhs, rule.rhs))
