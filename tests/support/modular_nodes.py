"""The operators of the cases for arrays modulo a prime, each with the terms in which it occurs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from superopt.ir.term import Term, topological
from tests.support.modular_cases import EXACT, typed
from tests.support.modular_laws import LAWS

__all__ = ["NODES", "operation", "sizes_of"]


def sizes_of(term: Term) -> tuple[int, ...]:
    """Return the shape of a term of known sizes."""
    assert term.type is not None
    shape = term.type.concrete()
    assert shape is not None
    return shape


def operation(term: Term) -> tuple[str, list[Term | None], Mapping[str, Any]]:
    """Return the operator, its operands and attributes; an output of several belongs to its operator."""
    node = term.inputs[0] if term.op == "Out" else term
    assert node is not None
    return node.op, list(node.inputs), {**dict(node.attrs), **dict(term.attrs)}


def _nodes() -> dict[str, list[Term]]:
    """Terms by operator, as they occur in the tables."""
    found: dict[str, dict[Term, None]] = {}
    texts = [*EXACT.items(), *((side, shapes) for left, right, shapes in LAWS for side in (left, right))]
    for text, shapes in texts:
        for term in topological(typed(text, shapes)):
            if term.op != "Var" and (len(term.types) == 1 or term.op == "Out"):
                found.setdefault(operation(term)[0], {})[term] = None
    return {op: list(terms) for op, terms in found.items()}


NODES = _nodes()
