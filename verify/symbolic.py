"""Scalars as sums of guarded products: distribution, linearity and the exchange of sums hold by construction.

A scalar is a sum of products  coefficient * factor * factor * ...,  each summed over all integer values of its bound
variables at which its guards hold. What is not polynomial is a factor: a function of sums, a choice by sign, a maximum
over bound variables, a product over one. `verify.compare` decides when two sums are equal.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias, Union

from superopt.ir.dim import Dim, Quotient, Size, Sizes, evaluate, symbol, symbols_of
from verify.algebra import Guard, Piece, at_least, below
from verify.functions import FUNCTIONS
from verify.numeric import holds

__all__ = [
    "INTEGERS", "ODD", "Access", "Apply", "Bound", "Choice", "Factor", "Maximum", "Moved", "Product", "Quantity",
    "Real", "Repeated", "Sum", "Symbolic", "children", "quotients_of", "single", "substitute",
]  # fmt: skip


@dataclass(frozen=True)
class Access:
    """The element of an input tensor at an index. A truth value is 0 or 1."""

    tensor: str
    index: Sizes
    dtype: str = "float"

    @property
    def truth(self) -> bool:
        """Whether it is a truth value."""
        return self.dtype == "bool"


@dataclass(frozen=True)
class Real:
    """A symbolic real attribute (or another number that nothing is known about)."""

    name: str


@dataclass(frozen=True)
class Quantity:
    """A size or index as a real number; in normal form, one symbol or quotient of it."""

    size: Size


@dataclass(frozen=True)
class Apply:
    """A function of `verify.functions`; `compare` knows some laws about some of them."""

    function: str
    arguments: tuple[Sum, ...]


@dataclass(frozen=True)
class Choice:
    """`yes` where `value` has the relation to 0, else `no`."""

    relation: str
    value: Sum
    yes: Sum
    no: Sum


@dataclass(frozen=True)
class Bound:
    """`value` at every value of the bound variables at which the guards hold."""

    binders: tuple[str, ...]
    guards: tuple[Guard, ...]
    value: Sum


@dataclass(frozen=True)
class Maximum:
    """The largest of all values."""

    alternatives: tuple[Bound, ...]


@dataclass(frozen=True)
class Repeated:
    """The product of all values."""

    over: Bound


Factor: TypeAlias = Union[Access, Real, Quantity, Apply, Choice, Maximum, Repeated]


@dataclass(frozen=True)
class Product:
    """coefficient * factors, summed over all integer values of `binders` at which every guard holds."""

    coefficient: Fraction
    factors: tuple[Factor, ...] = ()
    binders: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()


Sum: TypeAlias = tuple[Product, ...]

ONE = Fraction(1)
# Wrapping to an integer type: bits, least and greatest value.
INTEGERS: Mapping[str, tuple[int, int, int]] = {
    **{f"to_int{n}": (n, -(1 << (n - 1)), (1 << (n - 1)) - 1) for n in (8, 16, 32, 64)},
    **{f"to_uint{n}": (n, 0, (1 << n) - 1) for n in (8, 16, 32, 64)},
}
# Rounding to a real type: the element types that it leaves as they are.
REPRESENTS: Mapping[str, frozenset[str]] = {
    "to_float16": frozenset({"float16", "bool", "int8", "uint8"}),
    "to_float": frozenset({"float", "float16", "bfloat16", "bool", "int8", "uint8", "int16", "uint16"}),
    "to_double": frozenset(
        {"double", "float", "float16", "bfloat16", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"}
    ),
}
_FEW = 4
# f(-x) = -f(x)
ODD = frozenset({"tanh", "erf"})
# Functions with whole values.
_WHOLE = frozenset({"floor", "round", "truncate", "truncated_quotient", *INTEGERS})
# Functions that are not defined for all reals.
_PARTIAL = frozenset({"reciprocal", "log", "sqrt", "power", "truncated_quotient"})
_INVERSE = {"log": "exp"}  # f(g(x)) = x for all x


def single(factor: Factor) -> Sum:
    """The factor as a sum."""
    return (Product(ONE, (factor,)),)


class Symbolic:
    """`dtypes` names the tensors that are not "float", with their element types.

    `careful`: zero is a number that nothing is known about, so that no proof rests on x * 0 = 0; what is proven then
    holds term by term, in another order (`verify.verdict.NUMERICS`).
    `unfolded`: Sigmoid and Tanh by their definitions through exp, and sums over a few values written out.
    """

    def __init__(self, dtypes: Mapping[str, str] | None = None, careful: bool = False, unfolded: bool = False) -> None:
        self._count = itertools.count()
        self._dtypes = dtypes or {}
        self.careful, self._unfolded = careful, unfolded

    def fresh(self) -> str:
        """A binder's name that no other binder of this algebra has."""
        return f"k!{next(self._count)}"

    def constant(self, value: Fraction) -> Sum:
        if not value and self.careful:
            return single(Real("0"))
        return (Product(value),) if value else ()

    def real(self, name: str) -> Sum:
        return single(Real(name))

    def size(self, value: Size) -> Sum:
        """Each monomial is a product of quantities, so that sizes multiply and add as numbers do."""
        if isinstance(value, int):
            return self.constant(Fraction(value))
        return tuple(
            Product(Fraction(coefficient), tuple(Quantity(Dim((((atom,), 1),))) for atom in monomial))
            for monomial, coefficient in value.terms
        )

    def access(self, tensor: str, index: Sizes) -> Sum:
        return single(Access(tensor, index, self._dtypes.get(tensor, "float")))

    def add(self, *parts: Sum) -> Sum:
        return tuple(itertools.chain.from_iterable(parts))

    def multiply(self, left: Sum, right: Sum) -> Sum:
        """(sum of a) * (sum of b) = sum of all a * b, binders kept apart.

        Nothing times a function that may be undefined is kept, with coefficient 0, as a reminder.
        """
        if not left or not right:
            return tuple(
                Product(Fraction(0), p.factors, p.binders, p.guards)
                for p in left + right
                if any(map(_partial, p.factors))
            )
        return tuple(self._product(a, b) for a in left for b in right)

    def _product(self, a: Product, b: Product) -> Product:
        if set(a.binders) & set(b.binders):
            b = self.renamed(b)
        return Product(a.coefficient * b.coefficient, a.factors + b.factors, a.binders + b.binders, a.guards + b.guards)

    def renamed(self, product: Product) -> Product:
        """The same sum over fresh binders."""
        names = {binder: self.fresh() for binder in product.binders}
        env = Moved({old: symbol(new) for old, new in names.items()})
        return Product(
            product.coefficient,
            tuple(env.factor(self, f) for f in product.factors),
            tuple(names.values()),
            env.guards(product.guards),
        )

    def renamed_bound(self, bound: Bound) -> Bound:
        """The same values over fresh binders."""
        names = {binder: self.fresh() for binder in bound.binders}
        env = Moved({old: symbol(new) for old, new in names.items()})
        return Bound(tuple(names.values()), env.guards(bound.guards), env.sum(self, bound.value))

    def apply(self, function: str, *arguments: Sum) -> Sum:
        """f(arguments), with what holds whatever is known of the arguments."""
        if function == "power":
            return self._power(*arguments)
        if function == "truncated_quotient" and _number(arguments[1]) == 1:
            return arguments[0]
        if self._unfolded and function in ("sigmoid", "tanh"):
            return self._by_exp(function, arguments[0])
        if function in INTEGERS:
            return self._wrapped(function, arguments[0])
        if function in REPRESENTS:
            return self._rounded(function, arguments[0])
        if function in ("floor", "round", "truncate") and _whole(arguments[0]):
            return arguments[0]
        if function == "floor":  # floor(x + n) = floor(x) + n
            whole = tuple(p for p in arguments[0] if _whole((p,)))
            if whole:
                return self.add(self.apply("floor", tuple(p for p in arguments[0] if p not in whole)), whole)
        if len(arguments) == 1:
            (argument,) = arguments
            only = argument[0] if len(argument) == 1 and not (argument[0].binders or argument[0].guards) else None
            if function == "reciprocal" and only is not None and only.coefficient:
                # 1/(c*f*g) = 1/c * 1/f * 1/g
                inverse = tuple(Apply("reciprocal", (single(f),)) for f in only.factors)
                return (Product(1 / only.coefficient, inverse),)
            if function == "exp" and not argument:
                return self.constant(ONE)
            if function in ("tanh", "erf", "sqrt") and not argument:
                return ()
            if function == "sigmoid" and not argument:
                return self.constant(Fraction(1, 2))
            if function in ODD and len(argument) == 1 and argument[0].coefficient < 0:
                minus: Sum = (Product(-ONE),)
                return self.multiply(minus, self.apply(function, self.multiply(minus, argument)))
            if only is not None:
                known = self._of_one(function, only)
                if known is not None:
                    return known
        return single(Apply(function, arguments))

    def _of_one(self, function: str, only: Product) -> Sum | None:
        """f(c * factors) where that is another sum."""
        if not only.factors:
            root = _root(only.coefficient) if function == "sqrt" else None
            if root is not None:
                return self.constant(root)
            if function == "log" and only.coefficient == 1:
                return self.constant(Fraction(0))
            if function == "truncate":
                return self.constant(Fraction(math.trunc(only.coefficient)))
            return self.constant(Fraction(math.floor(only.coefficient))) if function == "floor" else None
        first = only.factors[0]
        plain = only.coefficient == 1 and len(only.factors) == 1 and isinstance(first, Apply)
        if plain and isinstance(first, Apply) and first.function == _INVERSE.get(function):
            return first.arguments[0]
        if function == "sqrt" and plain and isinstance(first, Apply) and first.function == "exp":
            return self.apply("exp", self.multiply(self.constant(Fraction(1, 2)), first.arguments[0]))
        return None

    def _by_exp(self, function: str, x: Sum) -> Sum:
        """sigmoid(x) = 1/(1 + exp(-x)), tanh(x) = 1 - 2/(1 + exp(2*x))."""
        one = self.constant(ONE)
        inside = self.multiply(((Product(Fraction(-1 if function == "sigmoid" else 2))),), x)
        below = self.apply("reciprocal", self.add(one, self.apply("exp", inside)))
        return below if function == "sigmoid" else self.add(one, self.multiply((Product(Fraction(-2)),), below))

    def _power(self, base: Sum, exponent: Sum) -> Sum:
        """x**n by multiplication for small n, x**(n/2) by roots; any other exponent is left open."""
        number = _number(exponent)
        if number is None or (2 * number).denominator != 1 or abs(number) > 4:
            return single(Apply("power", (base, exponent)))
        twice = int(abs(2 * number))
        result = self.constant(ONE)
        for _ in range(twice // 2):
            result = self.multiply(result, base)
        if twice % 2:
            result = self.multiply(result, self.apply("sqrt", base))
        return self.apply("reciprocal", result) if number < 0 else result

    def _wrapped(self, function: str, argument: Sum) -> Sum:
        """wrap(wrap(a) * b + c) = wrap(a * b + c): sums and products may be taken first, and wrapped at the end.

        An element of a tensor of the type, and a number of it, is what it is.
        """
        bits, low, high = INTEGERS[function]
        if any(p.coefficient.denominator != 1 for p in argument):
            return single(Apply(function, (argument,)))
        opened: Sum = ()
        for product in argument:
            parts: Sum = (replace(product, factors=()),)
            for factor in product.factors:
                inner = factor.arguments[0] if isinstance(factor, Apply) and _bits(factor.function) >= bits else None
                parts = self.multiply(parts, single(factor) if inner is None else inner)
            opened = self.add(opened, parts)
        number = _number(opened)
        if number is not None and low <= number <= high:
            return self.constant(number)
        element = opened[0].factors[0] if len(opened) == 1 and opened[0].factors else None
        if isinstance(element, Access) and opened == single(element):
            if element.truth:
                return opened
            _, least, most = INTEGERS.get(f"to_{element.dtype}", (0, low - 1, 0))
            if low <= least and most <= high:
                return opened
        return single(Apply(function, (opened,)))

    def _rounded(self, function: str, argument: Sum) -> Sum:
        """Rounding to a real type: x, where x has the type;  round(-x) = -round(x);  round(max(x, y)) =
        max(round(x), round(y)), as rounding is monotone."""
        number = _number(argument)
        if number is not None and Fraction(FUNCTIONS[function](float(number))) == number:
            return argument
        if len(argument) != 1 or argument[0] != Product(argument[0].coefficient, argument[0].factors[:1]):
            return single(Apply(function, (argument,)))
        (only,) = argument
        factor = only.factors[0] if only.factors else None
        minus = (Product(-ONE),)
        if only.coefficient == -1 and factor is not None:
            return self.multiply(minus, self._rounded(function, single(factor)))
        if only.coefficient == 1:
            if factor == Real("0") or (isinstance(factor, Access) and factor.dtype in REPRESENTS[function]):
                return argument
            if isinstance(factor, Apply) and factor.function == function:
                return argument
            if isinstance(factor, Choice):
                yes, no = (self._rounded(function, part) for part in (factor.yes, factor.no))
                return self.choose(factor.relation, factor.value, yes, no)
            if isinstance(factor, Maximum) and not any(a.guards for a in factor.alternatives if not a.binders):
                return self.of_alternatives(
                    tuple(replace(a, value=self._rounded(function, a.value)) for a in factor.alternatives)
                )
        return single(Apply(function, (argument,)))

    def choose(self, relation: str, value: Sum, yes: Sum, no: Sum) -> Sum:
        """A choice that is open; truth values of a truth value are itself."""
        number = _number(value)
        if number is not None:
            return yes if holds(relation, float(number)) else no
        if yes == no:
            return yes
        return single(Choice(relation, value, yes, no))

    def maximum(self, parts: Sequence[Sum]) -> Sum:
        """max(max(a, b), c) = max(a, b, c); of numbers only the largest is kept."""
        alternatives: dict[Bound, None] = {}
        largest: Fraction | None = None
        for part in parts:
            number = _number(part)
            if number is not None:
                largest = number if largest is None else max(largest, number)
            else:
                alternatives.update(dict.fromkeys(_flattened(Bound((), (), part))))
        if largest is not None:
            alternatives[Bound((), (), self.constant(largest))] = None
        return self.of_alternatives(tuple(alternatives))

    def of_alternatives(self, alternatives: tuple[Bound, ...]) -> Sum:
        """max of all; of one value, that value."""
        if len(alternatives) == 1 and not alternatives[0].binders and not alternatives[0].guards:
            return alternatives[0].value
        return single(Maximum(alternatives))

    def supremum(self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., Sum]) -> Sum:
        names = [None if size == 1 else self.fresh() for size in sizes]
        place = [0 if name is None else symbol(name) for name in names]
        bounds = [
            g for k, size in zip(place, sizes, strict=True) if size != 1 for g in (at_least(k, 0), below(k, size))
        ]
        guards = tuple(g for g in (*bounds, *conditions(*place)) if g.decided() is not True)
        value = body(*place)
        return self.of_alternatives(tuple(_flattened(Bound(tuple(n for n in names if n), guards, value))))

    def summation(self, size: Size, body: Callable[[Size], Sum]) -> Sum:
        """Binds a fresh k with 0 <= k < size; a sum over one value is that value."""
        if size == 1:
            return body(0)
        if self._unfolded and isinstance(size, int) and size <= _FEW:
            return self.add(*(body(k) for k in range(size)))
        name = self.fresh()
        k = symbol(name)
        bounds = (at_least(k, 0), below(k, size))
        return tuple(Product(p.coefficient, p.factors, (name, *p.binders), bounds + p.guards) for p in body(k))

    def product(self, size: Size, body: Callable[[Size], Sum]) -> Sum:
        if size == 1:
            return body(0)
        name = self.fresh()
        k = symbol(name)
        value = body(k)
        inner = value[0].factors[0] if len(value) == 1 and value[0].factors else None
        if isinstance(inner, Repeated) and value == single(inner):  # a product of products is one
            over = inner.over
            return single(
                Repeated(Bound((name, *over.binders), (at_least(k, 0), below(k, size), *over.guards), over.value))
            )
        return single(Repeated(Bound((name,), (at_least(k, 0), below(k, size)), value)))

    def where(self, conditions: Sequence[Guard], body: Callable[[], Sum]) -> Sum:
        open_ones = tuple(c for c in conditions if c.decided() is None)
        if any(c.decided() is False for c in conditions):
            return ()
        return tuple(Product(p.coefficient, p.factors, p.binders, open_ones + p.guards) for p in body())

    def piecewise(self, pieces: Sequence[Piece], otherwise: Sum | None) -> Sum:
        """sum of [c_j] * body_j, and otherwise * (1 - sum of [c_j])."""
        bodies = [self.where(conditions, body) for conditions, body in pieces]
        if not otherwise:
            return self.add(*bodies)
        rest = otherwise
        minus = (Product(-ONE),)
        gone = [self.multiply(minus, self.where(conditions, lambda: rest)) for conditions, _ in pieces]
        return self.add(*bodies, otherwise, *gone)


class Moved:
    """A substitution of index symbols, and of whole quotients, in sums; binders that would capture are renamed."""

    def __init__(self, env: Mapping[str, Size], quotients: Mapping[Quotient, Size] | None = None) -> None:
        self._env, self._quotients = env, quotients or {}
        self._reached = set(env) | {name for value in env.values() for name in symbols_of(value)}
        for quotient, value in self._quotients.items():
            for size in (quotient.numerator, quotient.denominator, value):
                self._reached |= symbols_of(size)

    def size(self, value: Size) -> Size:
        """`value` with the symbols and quotients replaced."""
        if not self._quotients or isinstance(value, int):
            return evaluate(value, self._env)
        total: Size = 0
        for monomial, coefficient in value.terms:
            product: Size = coefficient
            for atom in monomial:
                if isinstance(atom, Quotient) and atom in self._quotients:
                    product = product * self._quotients[atom]
                elif isinstance(atom, Quotient):
                    product = product * (self.size(atom.numerator) // self.size(atom.denominator))
                else:
                    product = product * self._env.get(atom, symbol(atom))
            total = total + product
        return total

    def guards(self, guards: Sequence[Guard]) -> tuple[Guard, ...]:
        """Guards with the symbols replaced."""
        return tuple(Guard(g.relation, self.size(g.value)) for g in guards)

    def sum(self, algebra: Symbolic, total: Sum) -> Sum:
        """A sum with its free symbols replaced."""
        result: list[Product] = []
        for product in total:
            if self._reached & set(product.binders):
                product = algebra.renamed(product)
            factors: list[Factor] = []
            coefficient = product.coefficient
            spread: list[Sum] = []
            for factor in product.factors:
                if isinstance(factor, Quantity):
                    moved = algebra.size(self.size(factor.size))
                    if len(moved) == 1:
                        coefficient *= moved[0].coefficient
                        factors.extend(moved[0].factors)
                    else:
                        spread.append(moved)
                else:
                    factors.append(self.factor(algebra, factor))
            here: Sum = (Product(coefficient, tuple(factors), product.binders, self.guards(product.guards)),)
            for moved in spread:
                here = algebra.multiply(here, moved)
            result.extend(here)
        return tuple(result)

    def factor(self, algebra: Symbolic, factor: Factor) -> Factor:
        """A factor with its free symbols replaced."""
        match factor:
            case Access(tensor, index, dtype):
                return Access(tensor, tuple(map(self.size, index)), dtype)
            case Apply(function, arguments):
                return Apply(function, tuple(self.sum(algebra, a) for a in arguments))
            case Choice(relation, value, yes, no):
                return Choice(relation, *(self.sum(algebra, part) for part in (value, yes, no)))
            case Maximum(alternatives):
                return Maximum(tuple(self.bound(algebra, a) for a in alternatives))
            case Repeated(over):
                return Repeated(self.bound(algebra, over))
            case Quantity(size):
                return Quantity(self.size(size))
        return factor

    def bound(self, algebra: Symbolic, bound: Bound) -> Bound:
        """The same for values over bound variables."""
        if self._reached & set(bound.binders):
            bound = algebra.renamed_bound(bound)
        return Bound(bound.binders, self.guards(bound.guards), self.sum(algebra, bound.value))


def substitute(algebra: Symbolic, total: Sum, env: Mapping[str, Size]) -> Sum:
    """`total` with free index symbols replaced."""
    return Moved(env).sum(algebra, total) if env else total


def children(factor: Factor) -> Iterator[tuple[tuple[str, ...], tuple[Guard, ...], Sum]]:
    """The sums inside a factor, each with the bound variables and guards that it stands under."""
    match factor:
        case Apply(_, arguments):
            yield from (((), (), a) for a in arguments)
        case Choice(_, value, yes, no):
            yield from (((), (), part) for part in (value, yes, no))
        case Maximum(alternatives):
            yield from ((a.binders, a.guards, a.value) for a in alternatives)
        case Repeated(over):
            yield (over.binders, over.guards, over.value)


def quotients_of(value: Size) -> Iterator[Quotient]:
    """The quotients in a size, innermost first."""
    for atom in value.atoms() if isinstance(value, Dim) else ():
        if isinstance(atom, Quotient):
            yield from quotients_of(atom.numerator)
            yield from quotients_of(atom.denominator)
            yield atom


def _partial(factor: Factor) -> bool:
    if isinstance(factor, Apply) and factor.function in _PARTIAL:
        return True
    return any(_partial(f) for _, _, total in children(factor) for p in total for f in p.factors)


def _number(total: Sum) -> Fraction | None:
    """The value where it is a number."""
    if any((p.factors and p.coefficient) or p.binders or p.guards for p in total):
        return None
    return sum((p.coefficient for p in total if not p.factors), Fraction(0))


def _flattened(bound: Bound) -> Iterator[Bound]:
    """max over k of max over j is max over k and j."""
    value = bound.value
    inner = value[0].factors[0] if len(value) == 1 and len(value[0].factors) == 1 else None
    if isinstance(inner, Maximum) and value == single(inner):
        for alternative in inner.alternatives:
            yield from _flattened(
                Bound(bound.binders + alternative.binders, bound.guards + alternative.guards, alternative.value)
            )
    else:
        yield bound


def _whole(total: Sum) -> bool:
    """Whether the form shows that the value is an integer."""

    def whole(factor: Factor) -> bool:
        if isinstance(factor, Apply):
            return factor.function in _WHOLE
        return isinstance(factor, Quantity) or (isinstance(factor, Access) and f"to_{factor.dtype}" in INTEGERS)

    return all(p.coefficient.denominator == 1 and all(map(whole, p.factors)) for p in total)


def _bits(function: str) -> int:
    return INTEGERS[function][0] if function in INTEGERS else 0


def _root(value: Fraction) -> Fraction | None:
    """The rational square root, where there is one."""
    if value < 0:
        return None
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    return root if root * root == value else None
