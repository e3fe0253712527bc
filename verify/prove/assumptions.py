"""Assumptions of a comparison: facts about indices, signs of scalars, and that the left side is defined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from superopt.ops.algebra import Guard
from verify.prove.facts import Facts
from verify.prove.sums import Access, Apply, Bound, Choice, SumOfProducts, children, only_factor, single

__all__ = ["DEFINED", "Everywhere", "Given", "Sign", "partial_applications"]

# For an application that is defined only there: an argument stands in this relation to 0.
_DEFINED_WHERE = {"reciprocal": (0, "!="), "log": (0, ">"), "sqrt": (0, ">="), "truncated_quotient": (1, "!=")}
# Where a power is defined is no such relation: it may only be where the same power is.
DEFINED = "defined"


@dataclass(frozen=True)
class Sign:
    """`value relation 0`, the relation one of > >= == !=."""

    relation: str
    value: SumOfProducts

    def negated(self) -> Sign:
        """Its contrary."""
        if self.relation in ("==", "!="):
            return Sign("!=" if self.relation == "==" else "==", self.value)
        from_zero = tuple(replace(p, coefficient=-p.coefficient) for p in self.value)
        return Sign(">=" if self.relation == ">" else ">", from_zero)


Everywhere: TypeAlias = tuple[str, Bound]  # relation, and the values that have it


@dataclass(frozen=True)
class Given:
    """`signs` hold here; `defined`: every value of a bound has a relation to 0; `values`: what some elements are."""

    facts: Facts
    signs: tuple[Sign, ...] = ()
    defined: tuple[Everywhere, ...] = ()
    values: tuple[tuple[Access, SumOfProducts], ...] = ()

    def extended(self, guards: Iterable[Guard]) -> Given:
        """Under more conditions on indices."""
        facts = self.facts.extended(guards)
        return self if facts is self.facts else replace(self, facts=facts)

    def assuming(self, sign: Sign) -> Given:
        """With one more sign; where it gives an element a value, with that."""
        if sign in self.signs:
            return self
        solved = _solved(sign.value) if sign.relation == "==" else None
        values = self.values if solved is None else (*self.values, solved)
        return replace(self, signs=(*self.signs, sign), values=values)


def partial_applications(
    total: SumOfProducts, branches: bool, binders: tuple[str, ...] = (), guards: tuple[Guard, ...] = ()
) -> Iterator[Everywhere]:
    """Yield the relations to 0 under which every function in `total` is defined.

    `branches`: in the branches of a choice as well. A machine computes both branches and drops one, defined or not. So
    a branch says nothing where definedness is assumed, and it counts where definedness is to be shown.
    """
    for product in total:
        inner, conditions = binders + product.binders, guards + product.guards
        for factor in product.factors:
            if isinstance(factor, Apply) and factor.function in _DEFINED_WHERE:
                place, relation = _DEFINED_WHERE[factor.function]
                argument = factor.arguments[place]
                yield relation, Bound(inner, conditions, argument)
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
    """c * x + rest = 0 as x = -rest / c, for an element x that the rest does not depend on."""
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
