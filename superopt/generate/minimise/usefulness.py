"""Tests for rules that hold but are not worth keeping."""

from __future__ import annotations

from collections.abc import Iterable

from superopt.generate.conjectures.ground_equation import GroundEquation, occurrences
from superopt.generate.conjectures.operation_counts import live_operations
from superopt.generate.minimise.cost import cost
from superopt.ir.rule import Rule
from superopt.ir.term import AttrVar, Term, topological

__all__ = ["is_usable", "is_weak"]


def is_weak(equation: GroundEquation) -> bool:
    """Return True if both sides cost the same and the equation is large, or has a variable twice on one side.

    A rule that saves nothing by itself only pays for its cost in a search if it is general and small. Laws of numbers
    may have a variable twice: x + x = 2 x, and x * x is a power of x.
    """
    weights = equation.weights
    if cost(equation.lhs, weights).total != cost(equation.rhs, weights).total:
        return False
    if equation.family.targets and len({live_operations(side, weights) for side in (equation.lhs, equation.rhs)}) > 1:
        return False  # smaller windows of pooling, which `cost` does not count
    repeated = not equation.family.reals and any(
        len(leaves) > len(set(leaves)) for leaves in map(occurrences, (equation.lhs, equation.rhs))
    )
    return repeated or equation.size[0] > equation.family.neutral


def is_usable(rule: Rule, weights: frozenset[str]) -> bool:
    """Return True if the rule has a direction whose left side occurs in models.

    Such a left side has at most one operator on weights alone, because models contain folded weights. It has no
    attribute that is the whole shape of a variable (Zeros[shape=t.shape]), because nothing matches such an attribute.
    """
    for side in (rule, rule.reversed()):
        if side.applicable and not _names_shapes(side.lhs):
            leaves = [t for t in topological(side.lhs) if not t.inputs and (t.op != "Var" or t.attr("name") in weights)]
            fixed: set[Term] = set(leaves)
            folded = 0
            for term in topological(side.lhs):
                if term.inputs and all(i in fixed for i in term.inputs):
                    fixed.add(term)
                    folded += term.op != "Out"
            if folded <= 1:
                return True
    return False


def _names_shapes(terms: Iterable[Term]) -> bool:
    """Return True if an attribute is the whole shape of a variable."""
    values = (value for term in topological(terms) for _, value in term.attrs)
    return any(isinstance(value, AttrVar) and ".shape" in value.name for value in values)
