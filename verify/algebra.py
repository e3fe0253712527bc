"""Scalars, twice: as sums of guarded products (for proofs) and as numbers (for tests and counterexamples).

`semantics` is written once against the interface that both share:
    constant(c)   add(a, b, ...)   multiply(a, b)   apply(f, a)   real(name)   access(tensor, index)
    summation(n, body)            sum over 0 <= k < n of body(k)
    where(conditions, body)       body() if every condition holds, else 0
A condition is a `Guard`: `value == 0` or `0 <= value`, with `value` a `Size` over indices and sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, Union

from superopt.ir.dim import Size, Sizes, evaluate, symbol, symbols_of

__all__ = [
    "FUNCTIONS", "Access", "Algebra", "Apply", "Factor", "Guard", "Numeric", "Product", "Real", "Sum", "Symbolic",
    "at_least", "below", "equal", "substitute", "substitute_factor",
]  # fmt: skip


@dataclass(frozen=True)
class Guard:
    """`value == 0` (relation "==") or `0 <= value` (relation "<=")."""

    relation: str
    value: Size

    def decided(self) -> bool | None:
        """Truth where `value` is a number, else None."""
        if isinstance(self.value, int):
            return self.value == 0 if self.relation == "==" else self.value >= 0
        return None

    def negated(self) -> Guard:
        """not (0 <= v) is 0 <= -v - 1. Only for inequalities."""
        assert self.relation == "<="
        return Guard("<=", -self.value - 1)


def at_least(value: Size, bound: Size) -> Guard:
    """bound <= value."""
    return Guard("<=", value - bound)


def below(value: Size, bound: Size) -> Guard:
    """value < bound."""
    return Guard("<=", bound - value - 1)


def equal(left: Size, right: Size) -> Guard:
    """left == right."""
    return Guard("==", left - right)


@dataclass(frozen=True)
class Access:
    """The element of an input tensor at an index."""

    tensor: str
    index: Sizes


@dataclass(frozen=True)
class Real:
    """A symbolic real attribute."""

    name: str


@dataclass(frozen=True)
class Apply:
    """A nonlinear scalar function, uninterpreted but for the laws in `Symbolic.apply`."""

    function: str
    argument: Sum


Factor: TypeAlias = Union[Access, Real, Apply]


@dataclass(frozen=True)
class Product:
    """coefficient * factors, summed over all integer values of `binders` at which every guard holds."""

    coefficient: Fraction
    factors: tuple[Factor, ...] = ()
    binders: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()


Sum: TypeAlias = tuple[Product, ...]

FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0.0),
    "sigmoid": lambda x: 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0,
    "tanh": math.tanh,
    "rsqrt": lambda x: 1.0 / math.sqrt(x) if x > 0 else math.nan,
}
# Exact values at zero, where rational: they let a padded or dropped argument vanish.
_AT_ZERO = {"relu": Fraction(0), "sigmoid": Fraction(1, 2), "tanh": Fraction(0)}


class Algebra(Protocol):
    """What the semantics of operators is written against; see the module's docstring."""

    def constant(self, value: Fraction) -> Any: ...
    def real(self, name: str) -> Any: ...
    def access(self, tensor: str, index: Sizes) -> Any: ...
    def add(self, *parts: Any) -> Any: ...
    def multiply(self, left: Any, right: Any) -> Any: ...
    def apply(self, function: str, argument: Any) -> Any: ...
    def summation(self, size: Size, body: Callable[[Size], Any]) -> Any: ...
    def where(self, conditions: Sequence[Guard], body: Callable[[], Any]) -> Any: ...


class Symbolic:
    """Scalars as sums of guarded products. Distribution and linearity hold by construction."""

    def __init__(self) -> None:
        self._count = itertools.count()

    def fresh(self) -> str:
        """A binder's name that no other binder of this algebra has."""
        return f"k!{next(self._count)}"

    def constant(self, value: Fraction) -> Sum:
        return (Product(value),) if value else ()

    def real(self, name: str) -> Sum:
        return (Product(Fraction(1), (Real(name),)),)

    def access(self, tensor: str, index: Sizes) -> Sum:
        return (Product(Fraction(1), (Access(tensor, index),)),)

    def add(self, *parts: Sum) -> Sum:
        return tuple(itertools.chain.from_iterable(parts))

    def multiply(self, left: Sum, right: Sum) -> Sum:
        """(sum of a) * (sum of b) = sum of all a * b, binders kept apart."""
        return tuple(self._product(a, b) for a in left for b in right)

    def _product(self, a: Product, b: Product) -> Product:
        if set(a.binders) & set(b.binders):
            b = self.renamed(b)
        return Product(a.coefficient * b.coefficient, a.factors + b.factors, a.binders + b.binders, a.guards + b.guards)

    def renamed(self, product: Product) -> Product:
        """The same sum over fresh binders."""
        names = {binder: self.fresh() for binder in product.binders}
        env: dict[str, Size] = {old: symbol(new) for old, new in names.items()}
        return Product(
            product.coefficient,
            tuple(substitute_factor(self, f, env) for f in product.factors),
            tuple(names.values()),
            tuple(Guard(g.relation, evaluate(g.value, env)) for g in product.guards),
        )

    def apply(self, function: str, argument: Sum) -> Sum:
        """f(argument); f(0) where it is rational; relu(c) = max(c, 0); relu(relu(x)) = relu(x)."""
        if not argument and function in _AT_ZERO:
            return self.constant(_AT_ZERO[function])
        if function == "relu" and len(argument) == 1 and not argument[0].binders and not argument[0].guards:
            (inner,) = argument
            if not inner.factors:
                return self.constant(max(inner.coefficient, Fraction(0)))
            first = inner.factors[0]
            if (
                inner.coefficient == 1
                and len(inner.factors) == 1
                and isinstance(first, Apply)
                and first.function == "relu"
            ):
                return argument
        return (Product(Fraction(1), (Apply(function, argument),)),)

    def summation(self, size: Size, body: Callable[[Size], Sum]) -> Sum:
        """Binds a fresh k with 0 <= k < size; a sum over one value is that value."""
        if size == 1:
            return body(0)
        name = self.fresh()
        k = symbol(name)
        bounds = (at_least(k, 0), below(k, size))
        return tuple(Product(p.coefficient, p.factors, (name, *p.binders), bounds + p.guards) for p in body(k))

    def where(self, conditions: Sequence[Guard], body: Callable[[], Sum]) -> Sum:
        open_ones = tuple(c for c in conditions if c.decided() is None)
        if any(c.decided() is False for c in conditions):
            return ()
        return tuple(Product(p.coefficient, p.factors, p.binders, open_ones + p.guards) for p in body())


def substitute(algebra: Symbolic, total: Sum, env: Mapping[str, Size]) -> Sum:
    """`total` with free index symbols replaced; binders are renamed where they would capture or be replaced."""
    if not env:
        return total
    reached = set(env) | {name for value in env.values() for name in symbols_of(value)}
    result = []
    for product in total:
        if reached & set(product.binders):
            product = algebra.renamed(product)
        factors = tuple(substitute_factor(algebra, f, env) for f in product.factors)
        guards = tuple(Guard(g.relation, evaluate(g.value, env)) for g in product.guards)
        result.append(Product(product.coefficient, factors, product.binders, guards))
    return tuple(result)


def substitute_factor(algebra: Symbolic, factor: Factor, env: Mapping[str, Size]) -> Factor:
    """`substitute` for one factor."""
    if isinstance(factor, Access):
        return Access(factor.tensor, tuple(evaluate(i, env) for i in factor.index))
    if isinstance(factor, Apply):
        return Apply(factor.function, substitute(algebra, factor.argument, env))
    return factor


class Numeric:
    """Scalars as floats, at known sizes. `tensors` maps a name to a lookup from index to value."""

    def __init__(self, tensors: Mapping[str, Callable[[tuple[int, ...]], float]], reals: Mapping[str, float]) -> None:
        self._tensors, self._reals = tensors, reals

    def constant(self, value: Fraction) -> float:
        return float(value)

    def real(self, name: str) -> float:
        return self._reals[name]

    def access(self, tensor: str, index: Sizes) -> float:
        return self._tensors[tensor](tuple(i for i in index if isinstance(i, int)))

    def add(self, *parts: float) -> float:
        return math.fsum(parts) if all(map(math.isfinite, parts)) else sum(parts)

    def multiply(self, left: float, right: float) -> float:
        return left * right

    def apply(self, function: str, argument: float) -> float:
        return FUNCTIONS[function](argument)

    def summation(self, size: Size, body: Callable[[Size], float]) -> float:
        assert isinstance(size, int)
        return self.add(*(body(k) for k in range(size)))

    def where(self, conditions: Sequence[Guard], body: Callable[[], float]) -> float:
        return body() if all(c.decided() for c in conditions) else 0.0
