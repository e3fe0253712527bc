"""Kinds of factors, pairs of factors that may be equal, and the check that a map of bound variables is a bijection."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from superopt.ir.dim import Dim, Size, symbols_of
from verify.prove.substitution import Substitution
from verify.prove.sums import Access, Apply, Choice, Entry, Factor, Maximum, Quantity, Repeated
from verify.prove.symbolic import Symbolic

__all__ = ["POINTWISE", "bijective", "kind", "kinds", "moved_factor", "pairings"]


POINTWISE = "pointwise"


def kind(factor: Factor) -> str:
    """Return the kind of a factor. Factors of different kinds are never equal."""
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
    """Return the kinds of all factors. Choices and maxima count once: their product may be written in several ways."""
    found = sorted(map(kind, factors))
    return [name for k, name in enumerate(found) if name != POINTWISE or name not in found[:k]]


def pairings(left: tuple[Factor, ...], right: tuple[Factor, ...]) -> Iterator[list[tuple[Factor, Factor]]]:
    """Yield all pairings of factors of the same kind. Choices and maxima may be left without a partner.

    They are made one by one, because there are n! pairings of n factors of one kind.
    """
    names = sorted(set(map(kind, left)))
    if not names:
        yield []
        return
    own, others = ([f for f in factors if kind(f) == names[0]] for factors in (left, right))
    rest = [tuple(f for f in factors if kind(f) in names[1:]) for factors in (left, right)]
    for order in itertools.permutations(others):
        pairs = list(zip(own, order, strict=names[0] != POINTWISE))
        for further in pairings(*rest):
            yield pairs + further


def bijective(mapping: Mapping[str, Size], left: Sequence[str], right: Sequence[str]) -> bool:
    """Return True if the map of bound variables is affine with an integer matrix of determinant 1 or -1."""
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
    """Return the factor with its index symbols replaced."""
    return Substitution(mapping).factor(algebra, factor) if mapping else factor
