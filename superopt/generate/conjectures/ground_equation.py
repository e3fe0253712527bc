"""Ground equations: two graphs of typed terms with known sizes that are conjectured to be equal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from superopt.generate.grammar import Family
from superopt.ir.term import CLOSED_FORM, Term, topological

__all__ = ["GroundEquation", "occurrences", "operators", "variables"]


@dataclass(frozen=True)
class GroundEquation:
    """Two ground graphs whose outputs have pairwise equal fingerprints."""

    lhs: tuple[Term, ...]
    rhs: tuple[Term, ...]
    family: Family

    @property
    def weights(self) -> frozenset[str]:
        """Names of the variables that are constant at inference."""
        return frozenset(v.name for v in self.family.variables if v.weight)

    @property
    def size(self) -> tuple[int, int, int, int]:
        """Sort key that puts small and general equations first.

        The key is: the number of operators that run at inference on both sides, the number of all operators, the number
        of elements of closed-form constants, and minus the number of variables.
        """
        left, right = operators(self.lhs, self.weights), operators(self.rhs, self.weights)
        terms = list(topological(self.lhs + self.rhs))
        constants = sum(math.prod(_sizes(t)) for t in terms if t.op in CLOSED_FORM)
        named = sum(t.op == "Var" for t in terms)
        return (left[0] + right[0], left[1] + right[1], constants, -named)


def _sizes(term: Term) -> tuple[int, ...]:
    sizes = None if term.type is None else term.type.concrete()
    assert sizes is not None
    return sizes


def variables(terms: Iterable[Term]) -> list[Term]:
    """Return the variables in the order in which they first occur, reading from the left."""
    return list(dict.fromkeys(occurrences(terms)))


def occurrences(terms: Iterable[Term]) -> list[Term]:
    """Return each occurrence of a variable, reading from the left."""
    found: list[Term] = []
    stack = list(terms)[::-1]
    while stack:
        term = stack.pop()
        if term.op == "Var":
            found.append(term)
        stack.extend(i for i in reversed(term.inputs) if i is not None)
    return found


def operators(terms: tuple[Term, ...], weights: frozenset[str]) -> tuple[int, int]:
    """Count the operators that run at inference, and all operators (without leaves and outputs of Split)."""
    runs: set[Term] = set()
    run = total = 0
    for term in topological(terms):
        live = term.attr("name") not in weights if term.op == "Var" else any(i in runs for i in term.inputs)
        if live:
            runs.add(term)
        if term.inputs and term.op != "Out":
            total += 1
            run += live
    return run, total
