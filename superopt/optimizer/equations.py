"""Rules on one line, even if they have very many operators: printed, and read again."""

from __future__ import annotations

import re
from collections.abc import Mapping

from superopt.ir.notation import Reader, show_graph, show_terms
from superopt.ir.rule import Rule
from superopt.ir.term import Term, node_of, topological

__all__ = ["parse_side", "show_equation", "show_sides"]

_MAX_TREE_OPERATORS = 1000  # of both sides, written out as trees
_ASSIGNED = re.compile(r"t\d+")  # the names in assignments


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
    clashes = any(term.op == "Var" and _ASSIGNED.fullmatch(str(term.attr("name"))) for term in size)
    show = show_terms if small or clashes else _as_assignments
    return show(rule.lhs), show(rule.rhs)


def parse_side(text: str) -> tuple[Term, ...]:
    """Return the terms of one side as `show_sides` writes it. Raises NotationError."""
    known: dict[str, Term] = {}
    *assignments, result = text.split("; ")
    for line in assignments:
        name, _, shown = line.partition(" = ")
        (known[name],) = _read(shown, known)
    return _read(result.removeprefix("return "), known)


class _Reader(Reader):
    """A reader that knows terms by names."""

    known: Mapping[str, Term]

    def term(self) -> Term:
        if self.peek(1) in ("[", "(") or self.peek() not in self.known:
            return super().term()
        term = self.known[self.take()]
        while self.peek() == "." and self.kind(1) == "int":
            self.take(".")
            term = node_of(term).out(int(self.take()))  # the name stands for a first output, or for a whole operator
        return term


def _read(text: str, known: Mapping[str, Term]) -> tuple[Term, ...]:
    reader = _Reader(text)
    reader.known = known
    terms = reader.terms()
    reader.end()
    return terms


def _as_assignments(side: tuple[Term, ...]) -> str:
    # The inputs of a rule have no types, so their lines are left out.
    return "; ".join(line for line in show_graph(side).splitlines() if not line.startswith("input "))
