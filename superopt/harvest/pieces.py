"""One window as terms over typed leaves: variables for run-time values and weights, and the constants that matter.

A constant matters if it is a single real number that a person wrote (`evaluate.written`): rules may depend on it.
Every other constant is a weight. A bias of zeros is one, too: what holds for every bias holds for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from superopt.ir.infer import remake
from superopt.ir.term import CLOSED_FORM, Attr, Term, var
from superopt.ir.types import FLOAT_DTYPES

__all__ = ["Piece", "extract", "literal"]


@dataclass(frozen=True)
class Piece:
    """A window at the sizes of its model: typed outputs over Var leaves, of which `weights` are constant."""

    outputs: tuple[Term, ...]
    weights: frozenset[Term]


def literal(term: Term) -> Term | None:
    """Return a constant as it stands in a window, or None if it is a weight."""
    shape = None if term.type is None or term.type.dtype not in FLOAT_DTYPES else term.type.concrete()
    single = shape is not None and math.prod(shape) == 1
    return term if single and term.op in CLOSED_FORM else None


def extract(members: Sequence[Term], outputs: Sequence[Term]) -> Piece:
    """Return the operators `members` with the live values `outputs` as a piece. Raises IllTyped."""
    inside = set(members)
    new: dict[Term, Term] = {}
    constants: set[Term] = set()

    def leaf(term: Term) -> Term:
        if term.is_constant:
            found = literal(term)
            if found is not None:
                return found
        variable = var(f"v{len(new)}", term.type)
        if term.is_constant:
            constants.add(variable)
        return variable

    def value(term: Term | None) -> Term | None:
        if term is None:
            return None
        if term not in new:
            (node,) = term.inputs if term.op == "Out" else (term,)
            assert node is not None
            if node in new and node in inside:
                index = term.attr("index")
                assert isinstance(index, int)
                new[term] = new[node].out(index)
            else:
                new[term] = leaf(term)
        return new[term]

    for term in members:
        new[term] = remake(term, tuple(map(value, term.inputs)))
    found = tuple(value(term) for term in outputs)
    return Piece(tuple(term for term in found if term is not None), frozenset(constants))


def mapped(value: Attr, change: Any) -> Attr:
    """Return an attribute with `change` applied to each of its entries."""
    return tuple(mapped(item, change) for item in value) if isinstance(value, tuple) else change(value)
