"""Proposals of a map between the bound variables of two sides, from the index expressions of paired factors.

`verify.prove.matching` checks that the map is a bijection and that the sides agree under it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from superopt.ir.dim import Size, evaluate, symbols_of
from verify.prove.bijection import kind
from verify.prove.bound_variables import solve
from verify.prove.sums import Access, Quantity, children

__all__ = ["propose"]


def propose(pairing: Sequence[tuple[Any, Any]], left: Sequence[str], right: Sequence[str]) -> dict[str, Size] | None:
    """Return values for the right side's bound variables, in terms of the left side's, that make the indices equal.

    `pairing` pairs factors, or sums. Returns None if the indices do not determine every variable.
    """
    if not right:
        return {}
    equations = list(itertools.chain.from_iterable(_equations(a, b) for a, b in pairing))
    # Last: pairs of elements of one tensor, wherever they occur.
    for a, b in pairing:
        theirs = list(_elements(b))
        for one in _elements(a):
            other = next((e for e in theirs if e.tensor == one.tensor and len(e.index) == len(one.index)), None)
            if other is not None:
                equations += zip(one.index, other.index, strict=True)
    mapping: dict[str, Size] = {}
    progress = True
    while progress and len(mapping) < len(right):
        progress = False
        for a, b in equations:
            unknown = [name for name in right if name not in mapping and name in symbols_of(b)]
            if len(unknown) == 1:
                solved = next(solve(evaluate(b, mapping) - a, unknown), None)
                if solved is not None:
                    mapping[solved[0]] = solved[1]
                    progress = True
    return mapping if len(mapping) == len(right) else None


def _equations(a: Any, b: Any) -> Iterator[tuple[Size, Size]]:
    """Yield pairs of indices that should be equal."""
    if isinstance(a, tuple):  # sums: pair products with factors of the same kinds
        rest = list(b)
        for product in a:
            kinds = sorted(map(kind, product.factors))
            match = next((p for p in rest if sorted(map(kind, p.factors)) == kinds), None)
            if match is not None:
                rest.remove(match)
                for factor in product.factors:
                    other = next((f for f in match.factors if kind(f) == kind(factor)), None)
                    if other is not None:
                        yield from _equations(factor, other)
    elif isinstance(a, Access) and isinstance(b, Access):
        yield from zip(a.index, b.index, strict=False)
    elif isinstance(a, Quantity) and isinstance(b, Quantity):
        yield a.size, b.size
    else:
        for (_, _, inside), (_, _, other) in zip(children(a), children(b), strict=False):
            yield from _equations(inside, other)


def _elements(part: Any) -> Iterator[Access]:
    """Yield all tensor elements in a sum or a factor."""
    if isinstance(part, tuple):
        for product in part:
            for factor in product.factors:
                yield from _elements(factor)
    elif isinstance(part, Access):
        yield part
    else:
        for _, _, inside in children(part):
            yield from _elements(inside)
