"""Laws of functions of one real number that hold where the functions are defined.

Each law holds where the applications on its left are defined: f * 1/f = 1, because f is not 0 where 1/f is defined. For
the left side of a rule that is assumed; for the right side it is an obligation of its own (`verify.prove.compare`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from verify.prove.assumptions import Given, Sign
from verify.prove.signs import Signs
from verify.prove.sums import (
    Access,
    Apply,
    Factor,
    Product,
    SumOfProducts,
    mentioned,
    mentioned_by,
    only_factor,
    single,
)
from verify.prove.symbolic import Symbolic

__all__ = ["Laws"]

ONE = Fraction(1)
UNIT: SumOfProducts = (Product(ONE),)


def _sqrt(f: SumOfProducts) -> Factor:
    return Apply("sqrt", (f,))


def _inverse(f: SumOfProducts) -> Factor:
    return Apply("reciprocal", (f,))


def _squared(f: SumOfProducts) -> SumOfProducts | None:
    """Return h if f is sqrt(h), else None."""
    root = only_factor(f)
    return None if root is None else _argument(root, "sqrt")


def _inverse_of_root(f: SumOfProducts) -> Factor | None:
    return None if _squared(f) is None else _inverse(f)


def _square_of_root(f: SumOfProducts) -> Factor | None:
    square = _squared(f)
    return None if square is None else only_factor(square)


# Laws of two factors; the first that applies is used. Each entry: the function of a factor function(f), the other
# factor, and their product.
_PAIRS: tuple[
    tuple[str, Callable[[SumOfProducts], Factor | None], Callable[[Symbolic, SumOfProducts], SumOfProducts]], ...
] = (
    # sqrt(f) * sqrt(f) = f
    ("sqrt", _sqrt, lambda g, f: f),
    # 1/f * sqrt(f) = 1/sqrt(f)
    ("reciprocal", _sqrt, lambda g, f: single(_inverse(single(_sqrt(f))))),
    # 1/f * f = 1
    ("reciprocal", only_factor, lambda g, f: UNIT),
    # 1/sqrt(h) * 1/sqrt(h) = 1/h, where f = sqrt(h)
    ("reciprocal", _inverse_of_root, lambda g, f: g.apply("reciprocal", _squared(f) or ())),
    # 1/sqrt(h) * h = sqrt(h), where f = sqrt(h)
    ("reciprocal", _square_of_root, lambda g, f: f),
)


class Laws:
    """Simplifies products and applications of one algebra by laws of functions."""

    def __init__(self, algebra: Symbolic, signs: Signs) -> None:
        self._algebra, self._signs = algebra, signs

    def product(self, product: Product) -> SumOfProducts:
        """Apply one law that makes the product simpler; return the product itself if none applies."""
        algebra = self._algebra
        exponents = [f for f in product.factors if isinstance(f, Apply) and f.function == "exp"]
        if len(exponents) > 1:  # exp(a) * exp(b) = exp(a + b)
            rest = tuple(f for f in product.factors if f not in exponents)
            joined = algebra.apply("exp", algebra.add(*(f.arguments[0] for f in exponents)))
            return algebra.multiply((replace(product, factors=rest),), joined)
        for factor, times in Counter(product.factors).items():
            if isinstance(factor, Access) and factor.truth and times > 1:  # c * c = c
                return (_without(product, factor),)
            for function, partner_of, result in _PAIRS if isinstance(factor, Apply) else ():
                f = _argument(factor, function)
                partner = None if f is None else partner_of(f)
                if f is not None and (times > 1 if partner == factor else partner in product.factors):
                    assert partner is not None
                    return algebra.multiply((_without(product, factor, partner),), result(algebra, f))
        return (product,)

    def applied(self, given: Given, function: str, arguments: tuple[SumOfProducts, ...]) -> SumOfProducts:
        """Apply the laws of one function to arguments in normal form."""
        argument = arguments[0] if len(arguments) == 1 else ()
        if function == "exp":
            return self._exp(argument)
        if len(argument) > 1 and function in ("reciprocal", "sqrt"):
            return self._of_multiple(given, function, argument)
        if len(argument) == 1 and argument[0].coefficient:
            (only,) = argument
            if function == "reciprocal":
                return self._reciprocal(only)
            if function == "sqrt":
                return self._sqrt(given, only)
            if function == "log":
                return self._log(given, only)
        return single(Apply(function, arguments))

    def _of_multiple(self, given: Given, function: str, argument: SumOfProducts) -> SumOfProducts:
        """f(c * g * (a + b)) = f(c) * f(g) * f(a + b), for f a reciprocal or (c > 0, g >= 0) a root."""
        scale = max(abs(p.coefficient) for p in argument)
        bound = {name for p in argument for name in p.binders}
        common = [
            factor
            for factor, _ in Counter(argument[0].factors).items()
            if all(factor in p.factors for p in argument)
            and not mentioned((factor,)) & bound
            and (function == "reciprocal" or self._signs.holds(given, Sign(">=", single(factor))))
        ]
        outside = Product(scale, tuple(common))
        if outside == Product(ONE):
            return single(Apply(function, (argument,)))
        inside = tuple(replace(_without(p, *common), coefficient=p.coefficient / scale) for p in argument)
        result = self.applied(given, function, (inside,))
        for part in (Product(scale), *(Product(ONE, (factor,)) for factor in common)):
            if part != Product(ONE):
                result = self._algebra.multiply(result, self._algebra.apply(function, (part,)))
        return result

    def _exp(self, argument: SumOfProducts) -> SumOfProducts:
        """exp(a + log f) = exp(a) * f;  exp(a - log f) = exp(a) / f."""
        for product in argument:
            inner = product.factors[0] if len(product.factors) == 1 else None
            plain = abs(product.coefficient) == 1 and not product.binders and not product.guards
            if plain and isinstance(inner, Apply) and inner.function == "log":
                rest = tuple(p for p in argument if p is not product)
                (base,) = inner.arguments
                if product.coefficient < 0:
                    base = self._algebra.apply("reciprocal", base)
                return self._algebra.multiply(base, self._algebra.apply("exp", rest))
        return single(Apply("exp", (argument,)))

    def _outside(self, product: Product) -> tuple[list[Factor], list[Factor]]:
        """Separate the factors that do not depend on the bound variables from those that do; exp(a + f(k)) is split."""
        bound = set(product.binders)
        outside: list[Factor] = []
        inside: list[Factor] = []
        for factor in product.factors:
            if not mentioned((factor,)) & bound:
                outside.append(factor)
            elif isinstance(factor, Apply) and factor.function == "exp":
                free = tuple(p for p in factor.arguments[0] if not mentioned_by((p,)) & bound)
                if free:
                    outside.append(Apply("exp", (free,)))
                inside.append(Apply("exp", (tuple(p for p in factor.arguments[0] if p not in free),)))
            else:
                inside.append(factor)
        return outside, inside

    def _reciprocal(self, only: Product) -> SumOfProducts:
        """1/(c * f * sum over k of g(k)) = 1/c * 1/f * 1/(sum of g);  1/(1/f) = f;  1/exp(a) = exp(-a)."""
        outside, inside = self._outside(only)
        result: SumOfProducts = (Product(1 / only.coefficient),)
        for factor in outside:
            result = self._algebra.multiply(result, self._inverse(factor))
        if only.binders or only.guards:
            left = Product(ONE, tuple(inside), only.binders, only.guards)
            result = self._algebra.multiply(result, single(Apply("reciprocal", ((left,),))))
        return result

    def _inverse(self, factor: Factor) -> SumOfProducts:
        if isinstance(factor, Apply) and factor.function == "reciprocal":
            return factor.arguments[0]
        if isinstance(factor, Apply) and factor.function == "exp":
            return self._algebra.apply("exp", self._algebra.multiply((Product(-ONE),), factor.arguments[0]))
        return single(Apply("reciprocal", (single(factor),)))

    def _sqrt(self, given: Given, only: Product) -> SumOfProducts:
        """sqrt(c * g) = sqrt(c) * sqrt(g) for c > 0, and for factors that are not negative;  sqrt(f * f) = |f|;
        sqrt(1/f) = 1/sqrt(f)."""
        algebra = self._algebra
        if only.binders or only.guards or not only.factors:
            return self._root_of_sum(given, only)
        size = abs(only.coefficient)
        result = algebra.apply("sqrt", (Product(size),)) if size != 1 else UNIT
        inside: list[Factor] = []
        for factor, times in Counter(only.factors).items():
            base = single(factor)
            for _ in range(times // 2):
                result = algebra.multiply(
                    result, algebra.choose(">=", base, base, algebra.multiply((Product(-ONE),), base))
                )
            if times % 2:
                inverse = _argument(factor, "reciprocal")
                if inverse is not None:
                    root = algebra.apply("reciprocal", algebra.apply("sqrt", inverse))
                    alone = len(only.factors) == 1 and only.coefficient > 0
                    if alone or self._signs.holds(given, Sign(">=", base)):
                        result = algebra.multiply(result, root)
                        continue
                inside.append(factor)
        if len(inside) > 1 or only.coefficient < 0:
            for factor in list(inside):
                if self._signs.holds(given, Sign(">=", single(factor))):
                    inside.remove(factor)
                    result = algebra.multiply(result, single(Apply("sqrt", (single(factor),))))
        if inside or only.coefficient < 0:
            rest = Product(only.coefficient / size, tuple(inside))
            result = algebra.multiply(result, single(Apply("sqrt", ((rest,),))))
        return result

    def _root_of_sum(self, given: Given, only: Product) -> SumOfProducts:
        """sqrt(c * f * sum over k of g(k)) = sqrt(c) * sqrt(f) * sqrt(sum of g), for c > 0 and f >= 0."""
        outside, inside = self._outside(only)
        if only.coefficient <= 0 or not (only.binders or only.guards):
            return single(Apply("sqrt", ((only,),)))
        result = UNIT if only.coefficient == 1 else self._algebra.apply("sqrt", (Product(only.coefficient),))
        for factor in outside:
            if self._signs.holds(given, Sign(">=", single(factor))):
                root = self._algebra.apply("sqrt", single(factor))
                known = only_factor(root)
                if isinstance(known, Apply) and known.function == "sqrt":
                    root = self._sqrt(given, Product(ONE, (factor,)))
                result = self._algebra.multiply(result, root)
            else:
                inside.append(factor)
        left = Product(ONE, tuple(inside), only.binders, only.guards)
        return self._algebra.multiply(result, single(Apply("sqrt", ((left,),))))

    def _log(self, given: Given, only: Product) -> SumOfProducts:
        """log(c * f * g) = log c + log f + log g if all but one are positive;  log(1/f) = -log f for f > 0;
        log(exp a) = a;  log(sum over k of f * g(k)) = log f + log(sum of g(k)) for f > 0."""
        algebra = self._algebra
        outside, inside = self._outside(only)
        whole = only_factor((only,))
        if whole is not None:
            return self._log_of(whole)
        positive = [f for f in outside if self._signs.holds(given, Sign(">", single(f)))]
        parts = [self._log_of(factor) for factor in positive]
        rest = list(outside)
        for factor in positive:
            rest.remove(factor)
        left = Product(ONE if only.coefficient > 0 else -ONE, (*rest, *inside), only.binders, only.guards)
        if only.coefficient not in (1, -1):
            parts.append(single(Apply("log", ((Product(abs(only.coefficient)),),))))
        if left != Product(ONE):
            parts.append(single(Apply("log", ((left,),))))
        return algebra.add(*parts)

    def _log_of(self, factor: Factor) -> SumOfProducts:
        """log(1/f) = -log f;  log(exp a) = a;  log(sqrt f) = log(f) / 2."""
        inverse, exponent, square = (_argument(factor, name) for name in ("reciprocal", "exp", "sqrt"))
        if exponent is not None:
            return exponent
        if inverse is not None:
            return self._algebra.multiply((Product(-ONE),), self._algebra.apply("log", inverse))
        if square is not None:
            return self._algebra.multiply((Product(ONE / 2),), self._algebra.apply("log", square))
        return single(Apply("log", (single(factor),)))


def _argument(factor: Factor, function: str) -> SumOfProducts | None:
    """Return g if the factor is function(g), else None."""
    return factor.arguments[0] if isinstance(factor, Apply) and factor.function == function else None


def _without(product: Product, *factors: Factor) -> Product:
    left = list(product.factors)
    for factor in factors:
        left.remove(factor)
    return replace(product, factors=tuple(left))
