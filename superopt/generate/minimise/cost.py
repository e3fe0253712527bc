"""Cost of a graph at the small sizes of an enumeration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from superopt.generate.conjectures.operation_counts import elements, products
from superopt.ir.term import Term, topological

__all__ = ["EnumerationCost", "cost"]

_LAUNCH = 8.0  # cost of launching an operator, in multiply-adds of these small tensors


@dataclass(frozen=True)
class EnumerationCost:
    """Cost of a graph at inference: multiply-adds of matrix products and convolutions (`work`), and everything else."""

    work: float
    other: float

    @property
    def total(self) -> float:
        """The sum of both."""
        return self.work + self.other

    def within(self, most: EnumerationCost) -> bool:
        """Return True if a search limited to cost `most` may visit this graph (one light operator more)."""
        return self.work <= most.work and self.other <= most.other + 2 * _LAUNCH

    def like(self, other: EnumerationCost) -> bool:
        """Return True if the costs differ by at most one light operator, so that only measurements can compare them."""
        return self.work == other.work and abs(self.other - other.other) <= _LAUNCH


def cost(terms: Iterable[Term], weights: frozenset[str]) -> EnumerationCost:
    """Return the cost of a graph at its small sizes. `weights` names the variables that are constant."""
    live: set[Term] = set()
    work = other = 0.0
    for term in topological(terms):
        if term.op == "Var":
            if term.attr("name") not in weights:
                live.add(term)
        elif any(i in live for i in term.inputs):
            live.add(term)
            if term.op != "Out":
                written = sum(elements(t.shape) for t in term.types if t is not None)
                other += _LAUNCH + written
                work += products(term, written)
    return EnumerationCost(work, other)
