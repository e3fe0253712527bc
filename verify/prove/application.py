"""Laws of functions that hold for all arguments, and the simplification of applications by them.

Laws that need the application to be defined are in `verify.prove.laws`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from verify.prove.real_types import ROUNDINGS
from verify.prove.sums import (
    ONE,
    Access,
    Apply,
    Choice,
    Factor,
    Maximum,
    Product,
    Quantity,
    Real,
    SumAlgebra,
    SumOfProducts,
    children,
    number_in,
    only_factor,
    single,
)  # fmt: skip

__all__ = ["ODD", "apply", "is_partial"]

# Functions that wrap to an integer type: its bits, least and greatest value.
INTEGERS: Mapping[str, tuple[int, int, int]] = {
    **{f"to_int{n}": (n, -(1 << (n - 1)), (1 << (n - 1)) - 1) for n in (8, 16, 32, 64)},
    **{f"to_uint{n}": (n, 0, (1 << n) - 1) for n in (8, 16, 32, 64)},
}
# Functions that round to a real type: the element types whose values they leave unchanged.
REPRESENTS: Mapping[str, frozenset[str]] = {
    "to_float16": frozenset({"float16", "bool", "int8", "uint8"}),
    "to_float": frozenset({"float", "float16", "bfloat16", "bool", "int8", "uint8", "int16", "uint16"}),
    "to_double": frozenset(
        {"double", "float", "float16", "bfloat16", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32"}
    ),
}
# Functions from a real to an integer type, undefined for values outside the type; the wrapping to the same type.
FROM_REAL: Mapping[str, str] = {name.replace("to_", "from_real_to_"): name for name in INTEGERS}
# Functions from a real to the nearest integer of a type; the wrapping to the same type.
SATURATING: Mapping[str, str] = {name.replace("to_", "saturate_to_"): name for name in INTEGERS}
# f(-x) = -f(x); halves are rounded to even, which has no sign
ODD = frozenset({"tanh", "erf", "sin", "round", "truncate"})
_EVEN = frozenset({"cos"})  # f(-x) = f(x)
# Functions whose values are integers.
_WHOLE = frozenset({"floor", "round", "truncate", "truncated_quotient", *INTEGERS, *FROM_REAL, *SATURATING})
# Functions that are not defined for all reals. Divisions of integers need no obligation here: the prover lets no right
# side have one that the left side lacks.
_PARTIAL = frozenset({"reciprocal", "log", "sqrt", "power", "real_remainder"})
_INVERSE = {"log": "exp"}  # f(g(x)) = x for all x


def _root(value: Fraction) -> Fraction | None:
    """Return the square root if it is rational, else None."""
    if value < 0:
        return None
    root = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
    return root if root * root == value else None


# f(0) = c
_AT_ZERO = {
    "exp": ONE,  # exp(0) = 1
    "cos": ONE,  # cos(0) = 1
    "sin": Fraction(0),  # sin(0) = 0
    "sigmoid": Fraction(1, 2),  # sigmoid(0) = 1/2
    "sqrt": Fraction(0),  # sqrt(0) = 0
    "tanh": Fraction(0),  # tanh(0) = 0
    "erf": Fraction(0),  # erf(0) = 0
}
# f(c) for other numbers c; None if the value is not rational or not known here.
_OF_NUMBER: Mapping[str, Callable[[Fraction], Fraction | None]] = {
    "sqrt": _root,  # sqrt(4/9) = 2/3
    "log": lambda c: Fraction(0) if c == 1 else None,  # log(1) = 0
    "truncate": lambda c: Fraction(math.trunc(c)),  # truncate(-3/2) = -1
    "floor": lambda c: Fraction(math.floor(c)),  # floor(-3/2) = -2
}


def apply(g: SumAlgebra, function: str, *arguments: SumOfProducts) -> SumOfProducts:
    """Return f(arguments), simplified by laws that hold for all arguments."""
    if function == "power":
        return _power(g, *arguments)
    if function == "truncated_quotient" and number_in(arguments[1]) == 1:
        return arguments[0]
    if g.unfolded and function in ("sigmoid", "tanh"):
        return _by_exp(g, function, arguments[0])
    if function in INTEGERS:
        return _wrapped(g, function, arguments[0])
    if function in FROM_REAL:
        return _from_real(g, function, arguments[0])
    if function in SATURATING:
        return _saturated(g, function, arguments[0])
    if function in REPRESENTS:
        return _rounded(g, function, arguments[0])
    if function in ("floor", "round", "truncate") and _whole(arguments[0]):
        return arguments[0]
    if function == "floor":  # floor(x + n) = floor(x) + n
        whole = tuple(p for p in arguments[0] if _whole((p,)))
        if whole:
            return g.add(apply(g, "floor", tuple(p for p in arguments[0] if p not in whole)), whole)
    if len(arguments) == 1:
        (argument,) = arguments
        only = argument[0] if len(argument) == 1 and not (argument[0].binders or argument[0].guards) else None
        if function == "reciprocal" and only is not None and only.coefficient:
            # 1/(c*f*g) = 1/c * 1/f * 1/g
            inverse = tuple(Apply("reciprocal", (single(f),)) for f in only.factors)
            return (Product(1 / only.coefficient, inverse),)
        if function in _AT_ZERO and not argument:
            return g.constant(_AT_ZERO[function]) if _AT_ZERO[function] else ()
        if function in ODD | _EVEN and len(argument) == 1 and argument[0].coefficient < 0:
            minus: SumOfProducts = (Product(-ONE),)
            opposite = apply(g, function, g.multiply(minus, argument))
            return g.multiply(minus, opposite) if function in ODD else opposite
        if only is not None:
            known = _of_one(g, function, only)
            if known is not None:
                return known
    return single(Apply(function, arguments))


def _of_one(g: SumAlgebra, function: str, only: Product) -> SumOfProducts | None:
    """Return f(c * factors) if a law turns it into another sum, else None."""
    if not only.factors:
        value = _OF_NUMBER[function](only.coefficient) if function in _OF_NUMBER else None
        return None if value is None else g.constant(value)
    first = only.factors[0]
    plain = only.coefficient == 1 and len(only.factors) == 1 and isinstance(first, Apply)
    if plain and isinstance(first, Apply) and first.function == _INVERSE.get(function):
        return first.arguments[0]
    if function == "sqrt" and plain and isinstance(first, Apply) and first.function == "exp":
        return apply(g, "exp", g.multiply(g.constant(Fraction(1, 2)), first.arguments[0]))
    return None


def _by_exp(g: SumAlgebra, function: str, x: SumOfProducts) -> SumOfProducts:
    """sigmoid(x) = 1/(1 + exp(-x)), tanh(x) = 1 - 2/(1 + exp(2*x))."""
    one = g.constant(ONE)
    inside = g.multiply(((Product(Fraction(-1 if function == "sigmoid" else 2))),), x)
    below = apply(g, "reciprocal", g.add(one, apply(g, "exp", inside)))
    return below if function == "sigmoid" else g.add(one, g.multiply((Product(Fraction(-2)),), below))


def _power(g: SumAlgebra, base: SumOfProducts, exponent: SumOfProducts) -> SumOfProducts:
    """x**n by multiplication for small n, x**(n/2) by roots, exp(x)**y = exp(x * y); others stay as `power`."""
    number = number_in(exponent)
    factor = only_factor(base)
    if number is None and isinstance(factor, Apply) and factor.function == "exp":
        return apply(g, "exp", g.multiply(factor.arguments[0], exponent))
    if number is None or (2 * number).denominator != 1 or abs(number) > 4:
        return single(Apply("power", (base, exponent)))
    twice = int(abs(2 * number))
    result = g.constant(ONE)
    for _ in range(twice // 2):
        result = g.multiply(result, base)
    if twice % 2:
        result = g.multiply(result, apply(g, "sqrt", base))
    return apply(g, "reciprocal", result) if number < 0 else result


def _wrapped(g: SumAlgebra, function: str, argument: SumOfProducts) -> SumOfProducts:
    """wrap(wrap(a) * b + c) = wrap(a * b + c): sums and products may be taken first, and wrapped at the end.

    An element of a tensor of the type, and a number in its range, are unchanged.
    """
    bits, low, high = INTEGERS[function]
    if any(p.coefficient.denominator != 1 for p in argument):
        return single(Apply(function, (argument,)))
    opened: SumOfProducts = ()
    for product in argument:
        parts: SumOfProducts = (replace(product, factors=()),)
        whole = _whole((product,))  # wrap(a) / 2 is not wrap(a / 2)
        for factor in product.factors:
            opens = whole and isinstance(factor, Apply) and _bits(factor.function) >= bits
            parts = g.multiply(parts, factor.arguments[0] if opens and isinstance(factor, Apply) else single(factor))
        opened = g.add(opened, parts)
    number = number_in(opened)
    if number is not None and low <= number <= high:
        return g.constant(number)
    if _held_within(opened, low, high):
        return opened
    return single(Apply(function, (opened,)))


def _from_real(g: SumAlgebra, function: str, argument: SumOfProducts) -> SumOfProducts:
    """Cast a real to an integer: values that the new type holds are unchanged, numbers are truncated."""
    _, low, high = INTEGERS[FROM_REAL[function]]
    number = number_in(argument)
    if number is not None and low <= math.trunc(number) <= high:
        return g.constant(Fraction(math.trunc(number)))
    if _held_within(argument, low, high):
        return argument
    return single(Apply(function, (argument,)))


def _saturated(g: SumAlgebra, function: str, argument: SumOfProducts) -> SumOfProducts:
    """Round to the nearest integer of a type: integers that the type holds are unchanged."""
    _, low, high = INTEGERS[SATURATING[function]]
    number = number_in(argument)
    if number is not None:
        return g.constant(Fraction(round(min(max(number, Fraction(low)), Fraction(high)))))
    return argument if _held_within(argument, low, high) else single(Apply(function, (argument,)))


def _rounded(g: SumAlgebra, function: str, argument: SumOfProducts) -> SumOfProducts:
    """Round to a real type: x, if x has the type;  round(-x) = -round(x);  round(max(x, y)) =
    max(round(x), round(y)), as rounding is monotone."""
    number = number_in(argument)
    if number is not None and Fraction(ROUNDINGS[function](float(number))) == number:
        return argument
    if len(argument) != 1 or argument[0] != Product(argument[0].coefficient, argument[0].factors[:1]):
        return single(Apply(function, (argument,)))
    (only,) = argument
    factor = only.factors[0] if only.factors else None
    minus = (Product(-ONE),)
    if only.coefficient == -1 and factor is not None:
        return g.multiply(minus, _rounded(g, function, single(factor)))
    if only.coefficient == 1:
        if factor == Real("0") or (isinstance(factor, Access) and factor.dtype in REPRESENTS[function]):
            return argument
        if isinstance(factor, Apply) and factor.function == function:
            return argument
        if isinstance(factor, Choice):
            yes, no = (_rounded(g, function, part) for part in (factor.yes, factor.no))
            return g.choose(factor.relation, factor.value, yes, no)
        if isinstance(factor, Maximum) and not any(a.guards for a in factor.alternatives if not a.binders):
            return g.of_alternatives(
                tuple(replace(a, value=_rounded(g, function, a.value)) for a in factor.alternatives)
            )
    return single(Apply(function, (argument,)))


def is_partial(factor: Factor) -> bool:
    """Return True if the factor contains a function that is not defined everywhere."""
    if isinstance(factor, Apply) and factor.function in _PARTIAL:
        return True
    return any(is_partial(f) for _, _, total in children(factor) for p in total for f in p.factors)


def _whole(total: SumOfProducts) -> bool:
    """Return True if the form shows that the value is an integer."""

    def whole(factor: Factor) -> bool:
        if isinstance(factor, Apply):
            return factor.function in _WHOLE
        return isinstance(factor, Quantity) or (isinstance(factor, Access) and f"to_{factor.dtype}" in INTEGERS)

    return all(p.coefficient.denominator == 1 and all(map(whole, p.factors)) for p in total)


def _held_within(total: SumOfProducts, low: int, high: int) -> bool:
    """Return True if the sum is one element, or one wrapped value, of an integer type within these bounds."""
    element = only_factor(total)
    held = None if element is None else _held(element)
    return held is not None and low <= held[0] and held[1] <= high


def _held(factor: Factor) -> tuple[int, int] | None:
    """Return the least and the greatest value of the factor's integer type, or None if it has none."""
    if isinstance(factor, Access):
        if factor.truth:
            return 0, 1
        name = f"to_{factor.dtype}"
    elif isinstance(factor, Apply):
        name = factor.function.replace("from_real_to_", "to_").replace("saturate_to_", "to_")
    else:
        return None
    return INTEGERS[name][1:] if name in INTEGERS else None


def _bits(function: str) -> int:
    return INTEGERS[function][0] if function in INTEGERS else 0
