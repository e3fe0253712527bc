"""Elimination of tables of numbers from products: sums over table entries are computed.

    sum over 0 <= k < n of  s[k, i] * t[k, j] * f   =   u[i, j] * f,   u[i, j] = sum over k of s[k, i] * t[k, j]

where f does not depend on k. A remaining entry t[i] becomes the sum over all places p of t[p] * [i = p].
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from superopt.ir.dim import Size, symbol, symbols_of
from superopt.ops.algebra import Table, equal
from verify.prove.bound_variables import limits
from verify.prove.substitution import Substitution
from verify.prove.sums import Entry, Product, SumOfProducts, mentioned
from verify.prove.symbolic import FEW, Symbolic

__all__ = ["without_tables"]


def without_tables(algebra: Symbolic, product: Product) -> SumOfProducts | None:
    """Eliminate one table, or write out one sum over a few values; None if there is neither."""
    entries = [factor for factor in product.factors if isinstance(factor, Entry)]
    if not entries:
        return _written_out(algebra, product)
    rest = tuple(factor for factor in product.factors if not isinstance(factor, Entry))
    for name in product.binders:
        joined = [e for e in entries if name in mentioned((e,))]
        if joined and name not in mentioned(rest) and _over_all(name, product, joined):
            others = tuple(e for e in entries if e not in joined)
            guards = tuple(g for g in product.guards if name not in symbols_of(g.value))
            binders = tuple(b for b in product.binders if b != name)
            return _times(
                replace(product, binders=binders, guards=guards, factors=rest + others), _summed(name, joined)
            )
    first = entries[0]
    without = list(product.factors)
    without.remove(first)
    return tuple(
        replace(
            product,
            coefficient=product.coefficient * value,
            factors=tuple(without),
            guards=(*product.guards, *(equal(i, at) for i, at in zip(first.index, place, strict=True))),
        )
        for place, value in zip(_places(first.table.shape), first.table.values, strict=True)
        if value and all(not isinstance(i, int) or i == at for i, at in zip(first.index, place, strict=True))
    )


def _written_out(algebra: Symbolic, product: Product) -> SumOfProducts | None:
    """Write out a sum over 0 <= k < n for a small n; None if there is none."""
    for name in product.binders:
        found = limits(name, product.guards)
        few = min((n for n in found.uppers if isinstance(n, int)), default=FEW + 1)
        if 0 in found.lowers and few <= FEW:
            one = replace(product, binders=tuple(b for b in product.binders if b != name))
            return algebra.add(*(Substitution({name: k}).sum(algebra, (one,)) for k in range(few)))
    return None


def _over_all(name: str, product: Product, entries: Sequence[Entry]) -> bool:
    """Return True if k runs over all places of the table axes that it indexes, and over no others."""
    found = limits(name, product.guards)
    sizes = {n for e in entries for i, n in zip(e.index, e.table.shape, strict=True) if i == symbol(name)}
    alone = all(i == symbol(name) or name not in symbols_of(i) for e in entries for i in e.index)
    return alone and not found.others and found.lowers == (0,) and len(sizes) == 1 and found.uppers == tuple(sizes)


def _summed(name: str, entries: Sequence[Entry]) -> Entry:
    """Return the table entry that is the sum over k of the product of the entries."""
    k = symbol(name)
    sizes: dict[Size, int] = {}
    for entry in entries:
        for index, size in zip(entry.index, entry.table.shape, strict=True):
            if not isinstance(index, int):
                sizes[index] = min(size, sizes.get(index, size))
    count = sizes.pop(k)
    values = []
    for place in _places(tuple(sizes.values())):
        at: dict[Size, int] = dict(zip(sizes, place, strict=True))
        total = Fraction(0)
        for at[k] in range(count):
            total += math.prod(
                (e.table[tuple(i if isinstance(i, int) else at[i] for i in e.index)] for e in entries),
                start=Fraction(1),
            )
        values.append(total)
    return Entry(Table(tuple(sizes.values()), tuple(values)), tuple(sizes))


def _times(product: Product, entry: Entry) -> SumOfProducts:
    if entry.index:
        return (replace(product, factors=(*product.factors, entry)),)
    return (replace(product, coefficient=product.coefficient * entry.table[()]),)


def _places(shape: tuple[int, ...]) -> itertools.product[tuple[int, ...]]:
    return itertools.product(*map(range, shape))
