"""One representative for all orders of the operands of commutative operators.

Graphs that differ in such orders only are one state to the search. It keeps the graph it has (the kernel
replays exact terms) and compares representatives.
"""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir.infer import OPERATORS
from superopt.ir.term import Term

__all__ = ["Normal"]


class Normal:
    """Representatives of terms; remembers them."""

    def __init__(self) -> None:
        self._known: dict[Term, Term] = {}

    def __call__(self, terms: Sequence[Term]) -> tuple[Term, ...]:
        """The representative of each of `terms`."""
        known = self._known
        stack = [term for term in reversed(terms) if term not in known]
        while stack:
            term = stack[-1]
            if term in known:
                stack.pop()
                continue
            missing = [i for i in term.inputs if i is not None and i not in known]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            inputs = tuple(None if i is None else known[i] for i in term.inputs)
            if term.op in OPERATORS and OPERATORS[term.op].commutative and None not in inputs:
                inputs = tuple(sorted(inputs, key=id))  # any order: these terms are kept, and others have other ids
            known[term] = term if inputs == term.inputs else Term.of(term.op, inputs, dict(term.attrs), term.types)
        return tuple(known[term] for term in terms)
