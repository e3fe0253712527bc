"""Texts that several commands print."""

from __future__ import annotations

from superopt.ir.notation import show_rule
from superopt.ir.rule import Rule

__all__ = ["counted", "equation_text"]


def counted(number: int, noun: str) -> str:
    """Return the number with the noun, in the plural unless the number is 1."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def equation_text(rule: Rule) -> str:
    """Return the equation of a rule in the notation, without its signatures."""
    return show_rule(Rule(rule.lhs, rule.rhs))
