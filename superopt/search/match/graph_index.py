"""What matching needs to know of a graph: its terms in order, who uses whom, and who depends on whom."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from superopt.ir.term import Term, topological

__all__ = ["MOVING", "View", "node_of", "root_key", "run_time_terms"]

# Operators that only move data: what several of them do together, one can.
MOVING = frozenset({"Concat", "Flatten", "Gather", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"})


def node_of(value: Term) -> Term:
    """The operator that computes a value: itself, unless it is one output of several."""
    if value.op == "Out":
        node = value.inputs[0]
        assert node is not None
        return node
    return value


def root_key(term: Term) -> str:
    """Under what a term is indexed: its operator, and for an output of a multi-output operator also that one's."""
    return f"Out:{node_of(term).op}" if term.op == "Out" else term.op


def run_time_terms(outputs: Sequence[Term]) -> set[Term]:
    """All terms that are computed at run time (no leaves)."""
    found: set[Term] = set()
    stack = list(outputs)
    while stack:
        term = stack.pop()
        if term not in found and not term.weight_only and term.op != "Var":
            found.add(term)
            stack.extend(i for i in term.inputs if i is not None)
    return found


class View:
    """An index of one graph, given by its outputs; made once a state, and only where the state is expanded."""

    def __init__(self, outputs: Sequence[Term]) -> None:
        self.outputs = tuple(outputs)
        self.terms: dict[Term, int] = {}  # every term, inputs before users -> its place in that order
        self.users: dict[Term, list[Term]] = {}
        self.values: list[Term] = []  # what a rule's root may be: computed at run time, no leaf
        self.by_key: dict[str, list[Term]] = {}
        for term in topological(self.outputs):
            self.terms[term] = len(self.terms)
            for used in dict.fromkeys(term.inputs):
                if used is not None:
                    self.users.setdefault(used, []).append(term)
            if not term.weight_only and term.op != "Var":
                self.values.append(term)
                self.by_key.setdefault(root_key(term), []).append(term)

    @cached_property
    def _below(self) -> dict[Term, int]:
        """For each term a bit mask of the run-time terms that it is computed from, itself included."""
        masks: dict[Term, int] = {}
        for term, place in self.terms.items():
            mask = 0
            if not term.weight_only:
                mask = 1 << place
                for used in term.inputs:
                    if used is not None:
                        mask |= masks[used]
            masks[term] = mask
        return masks

    def depends(self, term: Term, on: Term) -> bool:
        """Whether `term` is `on` or computed from it (both at run time)."""
        return bool(self._below[term] >> self.terms[on] & 1)
