"""The normal form of a sum under given facts and signs.

- Products whose guards contradict the facts are dropped; needless bound variables are eliminated
  (`verify.prove.binders`).
- Decided choices and maxima are replaced by their value; alternatives of a maximum that cannot be largest are dropped.
- Like products are added.
- Laws of functions are applied where they hold: f * 1/f = 1, exp(a) * exp(b) = exp(a + b), sqrt(f) * sqrt(f) = f, ...
  (`verify.prove.laws`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from superopt.ir.dim import symbols_of
from verify.prove.application import ODD
from verify.prove.assumptions import Given, Sign
from verify.prove.binders import fewer, narrowed, without_idle
from verify.prove.facts import Effort
from verify.prove.laws import Laws
from verify.prove.signs import Signs
from verify.prove.sums import (
    Access,
    Apply,
    Bound,
    Choice,
    Factor,
    Maximum,
    Product,
    Quantity,
    Repeated,
    SumOfProducts,
    free,
    mentioned,
    mentioned_by,
    only_factor,
    single,
)
from verify.prove.symbolic import Symbolic
from verify.prove.tables import without_tables

__all__ = ["Normaliser", "shown"]

ONE = Fraction(1)
_NAME = re.compile(r"k!\d+")
_DEEPEST = 60  # nested normal forms
_INCREASING = frozenset({"erf", "exp", "floor", "log", "round", "sigmoid", "sqrt", "tanh"})


class Normaliser:
    """Simplifies sums of one algebra. `step` is called once for each product, and may stop the proof."""

    def __init__(self, algebra: Symbolic, signs: Signs, step: Callable[[], None]) -> None:
        self._algebra, self._signs, self._step = algebra, signs, step
        self._laws = Laws(algebra, signs)
        self._depth = 0

    def simplified(self, given: Given, total: SumOfProducts) -> SumOfProducts:
        """Return the normal form of `total`, which is equal to it wherever `given` holds."""
        result: dict[object, Product] = {}
        for product in total:
            for reduced in self._reduced(given, product):
                sign = self._algebra.careful and reduced.coefficient > 0  # opposite rounding errors do not cancel
                key = (shown(reduced), sign)
                same = result.get(key)
                result[key] = replace(reduced, coefficient=reduced.coefficient + same.coefficient) if same else reduced
        return tuple(p for p in result.values() if p.coefficient)

    def _reduced(self, given: Given, product: Product) -> list[Product]:
        self._step()
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise Effort("normal form")
            return self._reduced_here(given, product)
        finally:
            self._depth -= 1

    def _reduced_here(self, given: Given, product: Product) -> list[Product]:
        if not product.coefficient:
            return []
        scoped = fewer(self._algebra, given, product.binders, product.guards, (Product(ONE, product.factors),))
        if scoped is None:
            return []
        here = given.extended(scoped.guards)
        kept = tuple(g for g in scoped.guards if not given.facts.entails(g))
        parts: SumOfProducts = ()
        settled = True
        for inside in scoped.value:
            part: SumOfProducts = (Product(product.coefficient * inside.coefficient, (), scoped.binders, kept),)
            for factor in inside.factors:
                simple = self._factor(here, factor)
                settled = settled and len(simple) == 1 and not (simple[0].binders or simple[0].guards)
                part = self._algebra.multiply(part, simple)
            parts = self._algebra.add(parts, part)
        if not settled:
            return [p for part in parts for p in self._reduced(given, part)]
        return [p for part in parts for p in self._polished(given, here, part)]

    def _polished(self, given: Given, here: Given, product: Product) -> list[Product]:
        if not product.coefficient:
            return []
        counted = without_tables(self._algebra, product) if self._algebra.tabulated else None
        if counted is None:
            counted = without_idle(self._algebra, given, product)
        if counted is not None:
            return [p for part in counted for p in self._reduced(given, part)]
        if self._algebra.careful:
            return [product]
        result = self._laws.product(product)
        if result == (product,):
            return [product]
        return [p for part in result for p in self._reduced(given, part)]

    def _factor(self, given: Given, factor: Factor) -> SumOfProducts:
        """Simplify a factor and the sums inside it."""
        algebra = self._algebra
        match factor:
            case Apply(function, arguments):
                simple = tuple(self.simplified(given, a) for a in arguments)
                applied = algebra.apply(function, *simple)
                if algebra.careful or applied != single(Apply(function, simple)):
                    return applied
                return self._laws.applied(given, function, simple)
            case Choice(relation, value, yes, no):
                sign = Sign(relation, self.simplified(given, value))
                if self._signs.holds(given, sign):
                    return self.simplified(given, yes)
                if self._signs.holds(given, sign.negated()):
                    return self.simplified(given, no)
                yes = self.simplified(given.assuming(sign), yes)
                no = self.simplified(given.assuming(sign.negated()), no)
                return algebra.choose(relation, sign.value, yes, no)
            case Maximum(alternatives):
                return self._maximum(given, alternatives)
            case Repeated(over):
                result: SumOfProducts = (Product(ONE),)
                for part in self._pieces(given, over):
                    result = algebra.multiply(result, self._repeated(part))
                return result
            case Quantity(size):
                return algebra.size(size)
            case Access():
                for access, value in given.values:
                    if self._signs.same(given, access, factor):
                        return value or algebra.constant(Fraction(0))
        return single(factor)

    def _repeated(self, bound: Bound) -> SumOfProducts:
        """prod of f(k) * g(k) = (prod of f(k)) * (prod of g(k));  prod of exp(f(k)) = exp(sum of f(k))."""
        if not bound.binders and not bound.guards:
            return bound.value
        value = bound.value
        if self._algebra.careful or len(value) != 1 or value != (Product(ONE, value[0].factors),):
            return single(Repeated(bound))
        result: SumOfProducts = (Product(ONE),)
        for factor in value[0].factors:
            one = single(Repeated(replace(bound, value=single(factor))))
            if isinstance(factor, Apply) and factor.function == "exp":
                (argument,) = factor.arguments
                total = tuple(
                    replace(p, binders=bound.binders + p.binders, guards=bound.guards + p.guards) for p in argument
                )
                one = self._algebra.apply("exp", total)
            result = self._algebra.multiply(result, one)
        return result

    def _pieces(self, given: Given, bound: Bound) -> list[Bound]:
        """Split a set of values into pieces in which no guard inside the value depends on the bound variables."""
        scoped = fewer(self._algebra, given, bound.binders, bound.guards, bound.value)
        if scoped is None:
            return []
        here = given.extended(scoped.guards)
        value = self.simplified(here, scoped.value)
        for product in value:
            for guard in product.guards:
                if symbols_of(guard.value) & set(product.binders) or guard.relation != "<=":
                    continue
                cases = [Bound(scoped.binders, (*scoped.guards, g), value) for g in (guard, guard.negated())]
                return [piece for case in cases for piece in self._pieces(given, case)]
        guards = tuple(g for g in scoped.guards if not given.facts.entails(g))
        return [Bound(scoped.binders, guards, value)]

    def _maximum(self, given: Given, alternatives: Sequence[Bound]) -> SumOfProducts:
        algebra = self._algebra
        found: list[Bound] = []
        for alternative in alternatives:
            for piece in self._pieces(given, alternative):
                nested = only_factor(piece.value)
                if isinstance(nested, Maximum):
                    more = tuple(
                        Bound(piece.binders + a.binders, piece.guards + a.guards, a.value) for a in nested.alternatives
                    )
                    simple = self._maximum(given, more)
                    inner = only_factor(simple)
                    if isinstance(inner, Maximum):
                        found += inner.alternatives
                    else:
                        found.append(Bound((), (), simple))
                else:
                    found.append(narrowed(self._algebra, given, piece))
        kept: list[Bound] = []
        for one in dict.fromkeys(found):
            if any(self._below(given, one, other) for other in kept):
                continue
            kept = [other for other in kept if not self._below(given, other, one)] + [one]
        pulled = self._monotone(given, kept)
        if pulled is not None:
            return pulled
        if len(kept) != 1 or not kept[0].binders:
            return algebra.of_alternatives(tuple(kept)) if kept else single(Maximum(()))
        return self._pulled(given, kept[0])

    def _monotone(self, given: Given, alternatives: Sequence[Bound]) -> SumOfProducts | None:
        """max of f(x) = f(max of x) for increasing f; None if there is no such f."""
        inner: list[Bound] = []
        names: set[str] = set()
        for bound in alternatives:
            factor = bound.value[0].factors[0] if len(bound.value) == 1 and len(bound.value[0].factors) == 1 else None
            if not isinstance(factor, Apply) or factor.function not in _INCREASING:
                return None
            if self._algebra.careful and factor.function in ("log", "sqrt"):
                return None  # a smaller value may be undefined when the largest is not
            (argument,) = factor.arguments
            if bound.value != single(factor):
                minus: SumOfProducts = (Product(-ONE),)
                if factor.function not in ODD or bound.value != self._algebra.multiply(minus, single(factor)):
                    return None
                argument = self._algebra.multiply(minus, argument)
            names.add(factor.function)
            inner.append(replace(bound, value=argument))
        return self._algebra.apply(names.pop(), self._maximum(given, inner)) if len(names) == 1 else None

    def _below(self, given: Given, one: Bound, other: Bound) -> bool:
        """Return True if the largest of `one` is shown to be at most the largest of `other`."""
        if (one.binders or other.binders or one.guards or other.guards) and not given.signs:
            return False
        minus = self._algebra.multiply((Product(-ONE),), _largest(one))
        difference = self._algebra.add(_largest(other), minus)
        if not (one.binders or other.binders or one.guards or other.guards):
            difference = self.simplified(given, difference)
        return self._signs.holds(given, Sign(">=", difference))

    def _pulled(self, given: Given, bound: Bound) -> SumOfProducts:
        """max over k of (c * f * g(k) + a) = c * f * max over k of g(k) + a, for c > 0 and f >= 0."""
        names = set(bound.binders)
        free = tuple(p for p in bound.value if not mentioned_by((p,)) & names)
        rest = tuple(p for p in bound.value if p not in free)
        if not rest:
            return single(Maximum((bound,)))
        outside = [
            factor
            for factor in dict.fromkeys(rest[0].factors)
            if all(factor in p.factors for p in rest)
            and not mentioned((factor,)) & names
            and self._signs.holds(given, Sign(">=", single(factor)))
        ]
        scale = Product(abs(rest[0].coefficient), tuple(outside))
        scaled = tuple(
            replace(p, coefficient=p.coefficient / scale.coefficient, factors=_less(p.factors, outside)) for p in rest
        )
        inside = single(Maximum((Bound(bound.binders, bound.guards, scaled),)))
        return self._algebra.add(free, self._algebra.multiply((scale,), inside))


def _less(factors: Sequence[Factor], fewer: Sequence[Factor]) -> tuple[Factor, ...]:
    left = list(factors)
    for factor in fewer:
        left.remove(factor)
    return tuple(left)


@lru_cache(maxsize=1 << 14)
def shown(product: Product) -> str:
    """Return a text that only products share which are equal up to bound names and the order of factors."""
    outside = free((product,))
    numbers: dict[str, int] = {}

    def renamed(text: str) -> str:
        def number(name: re.Match[str]) -> str:
            return name[0] if name[0] in outside else f"#{numbers.setdefault(name[0], len(numbers))}"

        return _NAME.sub(number, text)

    def blind(text: str) -> str:
        return _NAME.sub("k", text)

    factors = renamed(" ".join(sorted(map(repr, product.factors), key=blind)))
    guards = sorted(map(renamed, sorted(map(repr, product.guards), key=blind)))
    return f"{sorted(map(renamed, product.binders))} {factors} {guards}"


def _largest(bound: Bound) -> SumOfProducts:
    return single(Maximum((bound,))) if bound.binders or bound.guards else bound.value
