"""Cost of a graph at the small sizes of an enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from superopt.ir.operator import OPERATORS
from superopt.ir.term import Attr, Term, Types, topological
from superopt.ops.recurrent import RECURRENT
from superopt.properties import is_linear_product, summand_count
from superopt.properties.recorder import record

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
                written = sum(_elements(t.shape) for t in term.types if t is not None)
                other += _LAUNCH + written
                work += _work(term, written)
    return EnumerationCost(work, other)


def _elements(shape: tuple[object, ...] | None) -> int:
    return math.prod(size for size in shape or () if isinstance(size, int))


def _work(term: Term, written: int) -> float:
    """Return the multiply-adds of an operator that writes `written` elements."""
    if term.op in RECURRENT:
        sizes = [_elements(i.type.shape) for i in term.inputs[:3] if i is not None and i.type is not None]
        rows = sizes[0] // _last(term.inputs[0])
        return rows * (sizes[1] + sizes[2])
    inputs = tuple(None if used is None else used.type for used in term.inputs)
    return written * _summands(term.op, term.attrs, inputs, term.types)


@lru_cache(maxsize=1 << 14)
def _summands(op: str, attrs: tuple[tuple[str, Attr], ...], inputs: Types, results: Types) -> int:
    """Return the number of products that are added up for each element.

    Operators of the runtime's own do not count. ConvTranspose adds up what fits its strides, and does not count either.
    """
    if not is_linear_product(op) or OPERATORS[op].domain:
        return 0
    return summand_count(record(op, dict(attrs), inputs, results))


def _last(term: Term | None) -> int:
    assert term is not None and term.type is not None and term.type.shape is not None
    return _elements(term.type.shape[-1:])
