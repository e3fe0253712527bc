"""Operators as sums of multilinear parts: an operator's value is the sum of values on fewer operands."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from superopt.ir.dim import NoValue
from superopt.ir.infer import IllTyped, make
from superopt.ir.term import var
from superopt.ir.types import tensor
from superopt.ops.definition import NoSemantics
from superopt.properties import linear_operands
from superopt.properties.recorder import Expression, record

__all__ = ["Parts", "parts"]

Parts: TypeAlias = tuple[tuple[int, ...], ...]
_Monomials: TypeAlias = frozenset[frozenset[int]]  # the operands of each product in a sum of products

_CONSTANT: _Monomials = frozenset({frozenset[int]()})


def parts(op: str, shapes: Sequence[tuple[int, ...]], attrs: Mapping[str, Any]) -> Parts | None:
    """Return the operands of each part if the operator's value on operands of these shapes is a sum of parts, else
    None.

    A part is linear in each of its operands and does not depend on the other operands. So it is the operator's value
    with zeros for the other operands.

    a + b has the parts a and b; Conv(x, w, b) has Conv(x, w), linear in x and in w, and b.
    """
    if not linear_operands(op):
        return None
    return _parts(op, tuple(shapes), tuple(sorted(attrs.items())))


@lru_cache(maxsize=1 << 14)
def _parts(op: str, shapes: tuple[tuple[int, ...], ...], attrs: tuple[tuple[str, Any], ...]) -> Parts | None:
    types = [tensor(*shape) for shape in shapes]
    own = dict(attrs)
    output = own.pop("index", 0)
    try:
        term = make(op, [var(str(k), type) for k, type in enumerate(types)], own)
        root = record(op, dict(term.attrs), types, term.types, output)
    except (IllTyped, NoSemantics, NoValue):  # IllTyped: an operator of truth values
        return None
    found = _monomials(root)
    if found is None or frozenset(k for part in found for k in part) != frozenset(range(len(shapes))):
        return None
    # If a part's operands are among another's, zeros for the other operands do not isolate the larger part.
    if any(one <= other for one, other in itertools.permutations(found, 2)):
        return None
    return tuple(sorted(tuple(sorted(part)) for part in found))


def _monomials(node: Expression) -> _Monomials | None:
    """Return the operands whose elements are multiplied in each summand; None if the node is no sum of products."""
    if node.head == "access":
        assert isinstance(node.detail, tuple)
        return frozenset({frozenset({int(node.detail[0])})})
    if not node.reads:
        return frozenset() if node.head == "constant" and node.detail == 0 else _CONSTANT
    if node.head not in ("add", "multiply", "piecewise", "sum", "where"):
        return None
    found = [_monomials(arg) for arg in node.args]
    known = [part for part in found if part is not None]
    if len(known) < len(found):
        return None
    if node.head != "multiply":
        return frozenset().union(*known)
    left, right = known
    if any(one & other for one in left for other in right):  # a square
        return None
    return frozenset(one | other for one in left for other in right)
