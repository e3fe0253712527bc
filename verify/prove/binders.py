"""Elimination of bound variables from a sum, or from a set of values, under given facts.

- A variable with a single value is replaced by the value.
- A variable that is divided is split into quotient and remainder.
- A variable that the summand does not depend on becomes a factor, the size of its range.
- Two variables that occur only as their sum become one.
"""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir.dim import symbol, symbols_of
from superopt.ops.algebra import Guard, at_least, below
from verify.prove.application import is_partial
from verify.prove.assumptions import Given
from verify.prove.bound_variables import digits, limits, one_point, projected, vanishing, within
from verify.prove.substitution import Substitution
from verify.prove.sums import Access, Bound, Product, SumOfProducts, bound_inside, mentioned, mentioned_by, quotients_in
from verify.prove.symbolic import Symbolic

__all__ = ["fewer", "narrowed", "without_idle"]


def fewer(
    algebra: Symbolic, given: Given, binders: Sequence[str], guards: Sequence[Guard], value: SumOfProducts
) -> Bound | None:
    """Return the same values over fewer bound variables, or None if the guards have no solution."""
    binders, guards = tuple(binders), tuple(guards)
    # Rename variables that the facts mention or that are bound again inside.
    if set(binders) & (given.facts.names | bound_inside(value)):
        opened = algebra.renamed_bound(Bound(binders, guards, value))
        binders, guards, value = opened.binders, opened.guards, opened.value
    while True:
        solved = one_point(binders, guards)
        if solved is not None:
            name, at = solved
            env = Substitution({name: at})
            binders = tuple(b for b in binders if b != name)
            guards, value = env.guards(guards), env.sum(algebra, value)
            continue
        quotients = list(quotients_in(value, guards))
        if quotients:
            gone = vanishing(given.facts.extended(guards), quotients)
            if gone:
                env = Substitution({}, gone)
                # The substitution may rewrite the guards that show a quotient to be 0: keep that fact as new guards.
                kept = [g for q in gone for g in within(env.size(q.numerator), env.size(q.denominator))]
                guards = tuple(g for g in (*env.guards(guards), *kept) if g.decided() is not True)
                value = env.sum(algebra, value)
                continue
            split = digits(binders, quotients, algebra.fresh)
            if split is not None:
                guards, value = split.guards(guards), split.moved.sum(algebra, value)
                binders = (*(b for b in binders if b != split.name), split.quotient, split.remainder)
                continue
        break
    if any(g.decided() is False for g in guards):
        return None
    guards = tuple(dict.fromkeys(g for g in guards if g.decided() is None))
    if given.facts.extended(guards).inconsistent():
        return None
    return Bound(binders, guards, value)


def without_idle(algebra: Symbolic, given: Given, product: Product) -> SumOfProducts | None:
    """Apply sum over low <= k < high of c = (high - low) * c, for c that does not depend on k; None if no k is idle."""
    used = mentioned(product.factors)
    for name in product.binders:
        if name in used:
            continue
        found = limits(name, product.guards)
        others = [g for g in product.guards if name not in symbols_of(g.value)]
        if found.others or not found.lowers or not found.uppers:
            continue
        # The guards on k imply low < high at every k in range. They must not be used here: the range may be empty.
        facts = given.facts.extended(others)
        low = next((a for a in found.lowers if all(facts.entails(at_least(a, b)) for b in found.lowers)), None)
        high = next((a for a in found.uppers if all(facts.entails(at_least(b, a)) for b in found.uppers)), None)
        if low is None or high is None:
            continue
        # Under a sum over an empty range a factor may be undefined, but not outside of the sum.
        least = below(low, high) if any(map(is_partial, product.factors)) else at_least(high, low)
        if not facts.entails(least):
            continue
        rest = tuple(b for b in product.binders if b != name)
        counted = (Product(product.coefficient, product.factors, rest, tuple(others)),)
        return algebra.multiply(counted, algebra.size(high - low))
    return None


def narrowed(algebra: Symbolic, given: Given, bound: Bound) -> Bound:
    """Return the same set of values over fewer bound variables.

    Variables that the value does not depend on are projected away; two that occur only as their sum become one.
    """
    binders, guards, value = bound.binders, bound.guards, bound.value
    while True:
        used = mentioned_by(value)
        idle = next((b for b in binders if b not in used and projected(b, guards) is not None), None)
        if idle is not None:
            guards = projected(idle, guards) or ()
            guards = tuple(g for g in guards if not given.facts.entails(g))
            binders = tuple(b for b in binders if b != idle)
            continue
        joined = _joined(binders, value)
        if joined is None:
            return Bound(binders, guards, value)
        first, second = joined
        fresh = algebra.fresh()
        env = Substitution({first: symbol(fresh) - symbol(second)})
        moved = env.sum(algebra, value)
        if second in mentioned_by(moved):
            return Bound(binders, guards, value)
        guards, value = env.guards(guards), moved
        binders = tuple(fresh if b == first else b for b in binders)


def _joined(binders: Sequence[str], value: SumOfProducts) -> tuple[str, str] | None:
    """Return two bound variables whose sum occurs in an index, or None."""
    names = set(binders)
    for product in value:
        for factor in product.factors:
            for index in factor.index if isinstance(factor, Access) else ():
                own = symbols_of(index) & names
                if len(own) == 2:
                    first, second = sorted(own)
                    if second not in symbols_of(index - symbol(first) - symbol(second)) and first not in symbols_of(
                        index - symbol(first) - symbol(second)
                    ):
                        return first, second
    return None
