"""Proposals for a bijection of bound variables, read off the index expressions of what should be equal."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from superopt.ir.dim import Dim, Size, evaluate, symbols_of
from verify.prove.bound_variables import solve
from verify.prove.substitution import Moved
from verify.prove.sums import Access, Apply, Choice, Entry, Factor, Maximum, Quantity, Repeated, children
from verify.prove.symbolic import Symbolic

__all__ = ["POINTWISE", "bijective", "kind", "kinds", "moved_factor", "pairings", "propose"]


POINTWISE = "pointwise"


def kind(factor: Factor) -> str:
    """Factors can be equal only if they are of one kind."""
    match factor:
        case Access(tensor, index, _):
            return f"{tensor}[{len(index)}]"
        case Apply(function, _):
            return f"{function}()"
        case Quantity():
            return "size"
        case Repeated():
            return "repeated"
        case Choice() | Maximum():
            return POINTWISE
        case Entry(table, _):
            return f"numbers {table.shape}"
    return factor.name


def kinds(factors: Sequence[Factor]) -> list[str]:
    """The kinds of all factors, with that of choices and maxima once: their product may be written in several ways."""
    found = sorted(map(kind, factors))
    return [name for k, name in enumerate(found) if name != POINTWISE or name not in found[:k]]


def pairings(left: tuple[Factor, ...], right: tuple[Factor, ...]) -> Iterator[list[tuple[Factor, Factor]]]:
    """All ways to pair factors of the same kind (choices and maxima as far as there are partners)."""
    groups = []
    for name in sorted(set(map(kind, left))):
        own = [f for f in left if kind(f) == name]
        others = [f for f in right if kind(f) == name]
        groups.append([list(zip(own, order, strict=name != POINTWISE)) for order in itertools.permutations(others)])
    for choice in itertools.product(*groups):
        yield list(itertools.chain.from_iterable(choice))


def propose(pairing: Sequence[tuple[Any, Any]], left: Sequence[str], right: Sequence[str]) -> dict[str, Size] | None:
    """Values for the right side's bound variables, in terms of the left side's, that make the indices equal.

    The pairs are of factors, or of sums.
    """
    if not right:
        return {}
    equations = list(itertools.chain.from_iterable(_equations(a, b) for a, b in pairing))
    # At last elements of the same tensor, wherever they stand.
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
    """Indices that should be equal."""
    if isinstance(a, tuple):  # sums: products of the same factors
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
    """All elements of tensors in a sum or a factor."""
    if isinstance(part, tuple):
        for product in part:
            for factor in product.factors:
                yield from _elements(factor)
    elif isinstance(part, Access):
        yield part
    else:
        for _, _, inside in children(part):
            yield from _elements(inside)


def bijective(mapping: Mapping[str, Size], left: Sequence[str], right: Sequence[str]) -> bool:
    """Whether the map from left to right bound variables is affine with an integer matrix of determinant 1 or -1."""
    matrix: list[list[int]] = []
    bound = set(left)
    for name in right:
        value = mapping[name]
        row = dict.fromkeys(left, 0)
        for monomial, coefficient in value.terms if isinstance(value, Dim) else ():
            mentioned = {n for atom in monomial for n in symbols_of(Dim((((atom,), 1),)))} & bound
            if mentioned:
                if len(monomial) != 1 or not isinstance(monomial[0], str):
                    return False
                row[monomial[0]] += coefficient
        matrix.append([row[k] for k in left])
    return len(left) == len(right) and abs(_determinant(matrix)) == 1


def _determinant(matrix: list[list[int]]) -> int:
    if not matrix:
        return 1
    first, *rest = matrix
    return sum(
        (-1) ** j * value * _determinant([row[:j] + row[j + 1 :] for row in rest])
        for j, value in enumerate(first)
        if value
    )


def moved_factor(algebra: Symbolic, factor: Factor, mapping: Mapping[str, Size]) -> Factor:
    """The factor with index symbols replaced."""
    return Moved(mapping).factor(algebra, factor) if mapping else factor
