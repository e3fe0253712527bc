"""Counts of scalar operations: those of products and windows, and all others."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from superopt.ir.operator import OPERATORS
from superopt.ir.term import Attr, Term, Types, topological
from superopt.ops.recurrent import RECURRENT
from superopt.properties import is_linear_product, moves, summand_count
from superopt.properties.recorder import record

__all__ = ["elements", "live_operations", "live_terms", "products", "scalar_operations"]


def scalar_operations(terms: Iterable[Term]) -> tuple[float, float]:
    """Return the scalar operations of these operators, without their operands: in products and windows, and others."""
    work = other = 0.0
    for term in terms:
        if term.op not in ("Var", "Out") and not moves(term.op):
            written = sum(elements(t.shape) for t in term.types if t is not None)
            own = products(term, written) or written * _window(term)
            work, other = (work + own, other) if own > written else (work, other + own)
    return work, other


def live_operations(terms: Iterable[Term], weights: frozenset[str]) -> tuple[float, float]:
    """Return the scalar operations of a graph at inference, as `scalar_operations` does."""
    return scalar_operations(live_terms(terms, weights))


def live_terms(terms: Iterable[Term], weights: frozenset[str]) -> set[Term]:
    """Return the terms that depend on an input. `weights` names the variables that are constant."""
    live: set[Term] = set()
    for term in topological(terms):
        if term.attr("name") not in weights if term.op == "Var" else any(i in live for i in term.inputs):
            live.add(term)
    return live


def _window(term: Term) -> int:
    """Return the number of elements of an operator's window; 1 without a window."""
    kernel = dict(term.attrs).get("kernel_shape")
    return math.prod(size for size in kernel if isinstance(size, int)) if isinstance(kernel, tuple) else 1


def elements(shape: tuple[object, ...] | None) -> int:
    return math.prod(size for size in shape or () if isinstance(size, int))


def products(term: Term, written: int) -> float:
    """Return the multiply-adds of an operator that writes `written` elements."""
    if term.op in RECURRENT:
        sizes = [elements(i.type.shape) for i in term.inputs[:3] if i is not None and i.type is not None]
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
    return elements(term.type.shape[-1:])
