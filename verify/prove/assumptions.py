"""Assumptions of a comparison: facts about indices, signs of scalars, and that the left side is defined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from superopt.ops.algebra import Guard
from verify.prove.facts import Facts
from verify.prove.sums import Access, Apply, Bound, Choice, SumOfProducts, children, only_factor, single

__all__ = ["DEFINED", "Everywhere", "Given", "Sign", "partial_applications"]

# The application is defined where its (last) argument has this relation to 0.
_DEFINED_WHERE = {"reciprocal": "!=", "log": ">", "sqrt": ">=", "real_remainder": "!="}
# A power has no such relation: it counts as defined only if an equal power is given as defined.
DEFINED = "defined"


@dataclass(frozen=True)
class Sign:
    """The statement `value relation 0`, where the relation is one of > >= == !=."""

    relation: str
    value: SumOfProducts

    def negated(self) -> Sign:
        """Return the negated statement."""
        if self.relation in ("==", "!="):
            return Sign("!=" if self.relation == "==" else "==", self.value)
        from_zero = tuple(replace(p, coefficient=-p.coefficient) for p in self.value)
        return Sign(">=" if self.relation == ">" else ">", from_zero)


Everywhere: TypeAlias = tuple[str, Bound]  # a relation to 0, and the values that all have it


@dataclass(frozen=True)
class Given:
    """Assumptions: facts about indices, signs of scalars, relations to 0 and values of elements.

    `defined` holds the relations to 0 that follow from the left side being defined.
    """

    facts: Facts
    signs: tuple[Sign, ...] = ()
    defined: tuple[Everywhere, ...] = ()
    values: tuple[tuple[Access, SumOfProducts], ...] = ()

    def extended(self, guards: Iterable[Guard]) -> Given:
        """Return these assumptions with more conditions on indices."""
        facts = self.facts.extended(guards)
        return self if facts is self.facts else replace(self, facts=facts)

    def assuming(self, sign: Sign) -> Given:
        """Return these assumptions with one more sign, and with the value of an element if the sign determines it."""
        if sign in self.signs:
            return self
        solved = _solved(sign.value) if sign.relation == "==" else None
        values = self.values if solved is None else (*self.values, solved)
        return replace(self, signs=(*self.signs, sign), values=values)


def partial_applications(
    total: SumOfProducts, branches: bool, binders: tuple[str, ...] = (), guards: tuple[Guard, ...] = ()
) -> Iterator[Everywhere]:
    """Yield the relations to 0 under which every function in `total` is defined.

    `branches`: include the branches of a choice. A runtime computes both and drops one, which may be undefined. So
    branches are left out where definedness is assumed, and included where it is to be shown.
    """
    for product in total:
        inner, conditions = binders + product.binders, guards + product.guards
        for factor in product.factors:
            if isinstance(factor, Apply) and factor.function in _DEFINED_WHERE:
                argument = factor.arguments[-1]
                yield _DEFINED_WHERE[factor.function], Bound(inner, conditions, argument)
                root = only_factor(argument)
                if factor.function == "reciprocal" and isinstance(root, Apply) and root.function == "sqrt":
                    yield ">", Bound(inner, conditions, root.arguments[0])  # 1/sqrt(f)
            if isinstance(factor, Apply) and factor.function == "power":
                yield DEFINED, Bound(inner, conditions, single(factor))
            if isinstance(factor, Choice) and not branches:
                yield from partial_applications(factor.value, branches, inner, conditions)
                continue
            for more, also, part in children(factor):
                yield from partial_applications(part, branches, inner + more, conditions + also)


def _solved(value: SumOfProducts) -> tuple[Access, SumOfProducts] | None:
    """Solve c * x + rest = 0 as x = -rest / c, for an element x that the rest does not depend on."""
    if any(p.binders or p.guards for p in value):
        return None
    for product in value:
        (factor,) = product.factors if len(product.factors) == 1 else (None,)
        rest = tuple(p for p in value if p is not product)
        if isinstance(factor, Access) and factor.tensor not in _tensors(rest):
            return factor, tuple(replace(p, coefficient=-p.coefficient / product.coefficient) for p in rest)
    return None


def _tensors(total: SumOfProducts) -> frozenset[str]:
    found: set[str] = set()
    for product in total:
        for factor in product.factors:
            if isinstance(factor, Access):
                found.add(factor.tensor)
            for _, _, part in children(factor):
                found |= _tensors(part)
    return frozenset(found)
