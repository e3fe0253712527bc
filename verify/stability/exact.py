"""Sums and products that round nothing."""

from __future__ import annotations

from superopt.ops.algebra import Guard
from verify.prove.bound_variables import solve
from verify.prove.sums import SumOfProducts

__all__ = ["is_at_one_point", "is_count", "only_scales"]


def only_scales(value: SumOfProducts) -> bool:
    """Return True for a power of 2, up to its sign and conditions on indices: a product with it is exact."""
    if len(value) != 1 or value[0].factors or value[0].binders:
        return not value
    size = abs(value[0].coefficient)
    return size > 0 and all(n & (n - 1) == 0 for n in (size.numerator, size.denominator))


def is_count(value: SumOfProducts) -> bool:
    """Return True for a number of points, such as the size of a window: exact, as sizes are."""
    return all(not p.factors and p.coefficient == 1 for p in value)


def is_at_one_point(value: SumOfProducts, name: str) -> bool:
    """Return True if an equation leaves at most one value of the index at which the value is not 0."""
    common = set[Guard].intersection(*(set(p.guards) for p in value)) if value else set[Guard]()
    return any(g.relation == "==" and any(solve(g.value, [name])) for g in common)
