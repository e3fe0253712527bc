"""The algebra of values with error bounds: what each operation of a definition adds to the rounding error.

To first order in the unit roundoff u, and in units of u:

    E(input) = 0                              E(a + b) = E(a) + E(b) + |a + b|
    E(a * b) = E(a) |b| + |a| E(b) + |a b|    E(sum of v) = sum of E(v) + sum of |v|
    E(f(a))  = |f'(a)| E(a) + |f(a)|          E(max of v) = E of the largest v

A sum of n numbers in any order has an error of at most (n - 1) u times the sum of their absolute values. The factor
n - 1 is left out: both sides of a rule add up numbers of the same count, or the count is part of the model's sizes.

Exact operations add nothing: moves of data, choices, negation, multiplication by a power of 2, arithmetic of integers,
sums of at most one term that is not 0.

A bound is a sum of products in the prover's own form, in which the function `magnitude` stands for |x|. So the prover's
case splits, its normal form and its matching of bound variables work on bounds as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Size, Sizes, symbol
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, node_of
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.algebra import Guard, Piece, Table, at_least, below
from superopt.ops.meaning import Meaning
from verify.prove.application import REPRESENTS
from verify.prove.sums import ONE, Apply, Product, Real, SumOfProducts, number_in, single
from verify.prove.symbolic import Symbolic
from verify.stability.algorithms import as_computed, is_computed_by_others
from verify.stability.exact import is_at_one_point, is_count, only_scales

__all__ = ["MAGNITUDE", "Rounded", "Rounding", "RoundedMeaning", "is_rounded", "magnitude"]

MAGNITUDE = "magnitude"
_NOTHING: SumOfProducts = ()


def magnitude(value: SumOfProducts) -> SumOfProducts:
    """Return |value|; nothing for 0."""
    return single(Apply(MAGNITUDE, (value,))) if value else ()


@dataclass(frozen=True)
class Rounded:
    """A scalar: its real value, and the bound on its rounding error in units of u.

    `pending` is the rounding of a summation that an enclosing summation of the same operator may still extend: a sum
    over several indices is rounded as one.
    """

    value: SumOfProducts
    settled: SumOfProducts = ()
    pending: SumOfProducts = ()

    @property
    def error(self) -> SumOfProducts:
        """The whole bound."""
        return self.settled + self.pending


class Rounding:
    """The algebra of `Rounded` scalars over the sums of `sums`. Elements of the tensors in `computed` are rounded.

    `decided` returns whether a condition holds at the index that is looked at; None if it is not known. A piece that is
    decided early keeps the other pieces out of all sums that follow.
    """

    def __init__(
        self,
        sums: Symbolic,
        computed: Container[str] = (),
        decided: Callable[[Guard], bool | None] = Guard.decided,
    ) -> None:
        self.sums, self._computed, self._decided = sums, computed, decided

    def constant(self, value: Fraction) -> Rounded:
        return Rounded(self.sums.constant(value))

    def real(self, name: str) -> Rounded:
        return Rounded(self.sums.real(name))

    def size(self, value: Size) -> Rounded:
        return Rounded(self.sums.size(value))

    def access(self, tensor: str, index: Sizes) -> Rounded:
        value = self.sums.access(tensor, index)
        return Rounded(value, magnitude(value) if tensor in self._computed else ())

    def data_index(self, value: Rounded, size: Size) -> Size:
        return self.sums.data_index(value.value, size)

    def entry(self, table: Table, index: Sizes) -> Rounded:
        return Rounded(self.sums.entry(table, index))

    def add(self, *parts: Rounded) -> Rounded:
        """Add two numbers with one rounding, more in any order; adding 0 is exact."""
        value = self.sums.add(*(part.value for part in parts))
        error = self.sums.add(*(part.error for part in parts))
        summands = [part.value for part in parts if part.value]
        if len(summands) < 2:
            return Rounded(value, error)
        rounded = magnitude(value) if len(summands) == 2 else self.sums.add(*map(magnitude, summands))
        return Rounded(value, error + rounded)

    def multiply(self, left: Rounded, right: Rounded) -> Rounded:
        value = self.sums.multiply(left.value, right.value)
        error = self.times(left.error, right.value) + self.times(right.error, left.value)
        if only_scales(left.value) or only_scales(right.value):
            return Rounded(value, error)
        return Rounded(value, error + magnitude(value))

    def apply(self, function: str, *arguments: Rounded) -> Rounded:
        value = self.sums.apply(function, *(a.value for a in arguments))
        error: SumOfProducts = ()
        for position, argument in enumerate(arguments):
            own, (rest,) = _own_roundings([(argument.value, argument.error)])
            if own and position == 0 and function in _POWERS:  # x has error |x|, so x^p has error p |x^p|
                error += _scaled(magnitude(value), own * _POWERS[function])
            else:
                rest = argument.error
            if rest and function == "log":
                error += self._over(rest, argument.value)
            elif rest:
                slope = self._slope(function, position, [a.value for a in arguments], value)
                error += self.times(rest, slope)
        if function in _EXACT or (number_in(value) is not None and not error):
            return Rounded(value, error)
        if function in REPRESENTS:  # rounds to another type, with a unit roundoff of its own
            same = len(arguments) == 1 and value == arguments[0].value
            unit = single(Real(f"unit roundoff {function}"))
            return Rounded(value, error if same else error + self.times(magnitude(value), unit))
        return Rounded(value, error + magnitude(value))

    def choose(self, relation: str, value: Rounded, yes: Rounded, no: Rounded) -> Rounded:
        """Select exactly. An error of `value` may select the other branch; that error is a multiple of an unknown."""
        sums, one = self.sums, self.sums.constant(ONE)
        here, there = sums.choose(relation, value.value, one, ()), sums.choose(relation, value.value, (), one)
        error = self.times(yes.error, here) + self.times(no.error, there)
        if value.error:
            jump = sums.add(yes.value, sums.multiply((Product(-ONE),), no.value))
            unknown = single(Apply(f"jump {relation}", (value.value,)))
            error += self.times(value.error, sums.multiply(jump, unknown))
        return Rounded(sums.choose(relation, value.value, yes.value, no.value), error)

    def maximum(self, parts: Sequence[Rounded]) -> Rounded:
        sums = self.sums
        value = sums.maximum([part.value for part in parts])
        own, rest = _own_roundings([(part.value, part.error) for part in parts])
        error: SumOfProducts = _scaled(magnitude(value), own)
        for k, (part, left) in enumerate(zip(parts, rest, strict=True)):
            if not left:
                continue
            selected: SumOfProducts = (Product(ONE),)
            for j, other in enumerate(parts):
                if j != k:
                    more = (part, other) if k < j else (other, part)
                    difference = sums.add(more[0].value, sums.multiply((Product(-ONE),), more[1].value))
                    branches = (sums.constant(ONE), ()) if k < j else ((), sums.constant(ONE))
                    selected = sums.multiply(selected, sums.choose(">=", difference, *branches))
            error += self.times(left, selected)
        return Rounded(value, error)

    def supremum(
        self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., Rounded]
    ) -> Rounded:
        """Select the largest value over the indices exactly, with the error of the value that is the largest."""
        sums = self.sums
        value = sums.supremum(sizes, conditions, lambda *k: body(*k).value)
        names = [None if size == 1 else sums.fresh() for size in sizes]
        place = [0 if name is None else symbol(name) for name in names]
        bounds = [
            g for k, size in zip(place, sizes, strict=True) if size != 1 for g in (at_least(k, 0), below(k, size))
        ]
        guards = tuple(g for g in (*bounds, *conditions(*place)) if g.decided() is not True)
        inside = body(*place)
        own, (rest,) = _own_roundings([(inside.value, inside.error)])
        error: SumOfProducts = _scaled(magnitude(value), own)
        if rest:
            below_largest = sums.add(inside.value, sums.multiply((Product(-ONE),), value))
            selected = sums.choose(">=", below_largest, sums.constant(ONE), ())
            error += _summed(self.times(rest, selected), tuple(n for n in names if n), guards)
        return Rounded(value, error)

    def summation(self, size: Size, body: Callable[[Size], Rounded]) -> Rounded:
        if size == 1:
            return body(0)
        if self.sums.unfolded:
            raise AssertionError("sums are not written out in bounds")
        name = self.sums.fresh()
        k = symbol(name)
        guards = (at_least(k, 0), below(k, size))
        inside = body(k)
        exact = is_count(inside.value) or is_at_one_point(inside.value, name)
        rounded = inside.pending or (() if exact else magnitude(inside.value))
        return Rounded(*(_summed(part, (name,), guards) for part in (inside.value, inside.settled, rounded)))

    def product(self, size: Size, body: Callable[[Size], Rounded]) -> Rounded:
        """Multiply all values: each relative error, and one rounding, as for a sum."""
        if size == 1:
            return body(0)
        name = self.sums.fresh()
        k = symbol(name)
        inside = body(k)
        value = self.sums.product(size, lambda j: body(j).value)
        relative = self.times(inside.error, self.sums.apply("reciprocal", inside.value))
        error = self.times(_summed(relative, (name,), (at_least(k, 0), below(k, size))), value)
        return Rounded(value, error + magnitude(value))

    def where(self, conditions: Sequence[Guard], body: Callable[[], Rounded]) -> Rounded:
        open_ones = self._open(conditions)
        if open_ones is None:
            return Rounded(())
        inside = body()
        return Rounded(*(_summed(part, (), open_ones) for part in (inside.value, inside.settled, inside.pending)))

    def piecewise(self, pieces: Sequence[Piece], otherwise: Rounded | None) -> Rounded:
        """Move the value of a piece exactly, with its error."""
        sums, error = self.sums, _NOTHING
        left = [(self._open(conditions), body) for conditions, body in pieces]
        bodies: list[tuple[tuple[Guard, ...], Rounded]] = []
        for conditions, body in left:
            if conditions == ():  # this piece it is: pieces exclude each other
                chosen: Rounded = body()
                return chosen
            if conditions is not None:
                bodies.append((conditions, body()))
        for conditions, inside in bodies:
            error += _summed(inside.error, (), conditions)
        if otherwise is not None and otherwise.error:
            one = sums.constant(ONE)
            rest = sums.piecewise([(conditions, _constantly(())) for conditions, _ in bodies], one)
            error += self.times(otherwise.error, rest)
        moved = [(conditions, _constantly(inside.value)) for conditions, inside in bodies]
        return Rounded(sums.piecewise(moved, None if otherwise is None else otherwise.value), error)

    def _open(self, conditions: Sequence[Guard]) -> tuple[Guard, ...] | None:
        """Return the conditions that are not known to hold, or None if one is known to fail."""
        answers = [(c, self._decided(c)) for c in conditions]
        return None if any(a is False for _, a in answers) else tuple(c for c, a in answers if a is None)

    def times(self, bound: SumOfProducts, value: SumOfProducts) -> SumOfProducts:
        """Return bound * |value|, with the value inside the bound's magnitudes."""
        if not value:
            return ()
        result: list[Product] = []
        for product in bound:
            opened = self.sums.renamed(product)  # `value` may bind the same names
            (factor,) = opened.factors
            assert isinstance(factor, Apply) and factor.function == MAGNITUDE
            result.append(
                replace(opened, factors=(Apply(MAGNITUDE, (self.sums.multiply(factor.arguments[0], value),)),))
            )
        return tuple(result)

    def _over(self, bound: SumOfProducts, value: SumOfProducts) -> SumOfProducts:
        """Return bound / |value|. Factors of the value are cancelled before sums are multiplied out."""
        if len(value) != 1 or value[0].binders or value[0].guards:
            return self.times(bound, self.sums.apply("reciprocal", value))
        result: SumOfProducts = ()
        for product in bound:
            (factor,) = product.factors
            assert isinstance(factor, Apply)
            inside = [_without(p, value[0]) for p in factor.arguments[0]]
            if None in inside:
                result += self.times((product,), self.sums.apply("reciprocal", value))
            else:
                result += (replace(product, factors=magnitude(tuple(p for p in inside if p))[0].factors),)
        return result

    def _slope(
        self, function: str, position: int, arguments: Sequence[SumOfProducts], value: SumOfProducts
    ) -> SumOfProducts:
        """Return the derivative by the argument at `position`, up to its sign; unknown ones are functions of their
        own."""
        g, x = self.sums, arguments[position]
        if function == "exp":
            return value
        if function == "sqrt":
            return g.multiply(g.constant(Fraction(1, 2)), g.apply("reciprocal", value))
        if function == "reciprocal":
            return g.multiply(value, value)
        if function == "sigmoid":
            return g.multiply(value, g.add(g.constant(ONE), g.multiply((Product(-ONE),), value)))
        if function == "power" and position == 0:
            exponent = arguments[1]
            less = g.apply("power", x, g.add(exponent, (Product(-ONE),)))
            return g.multiply(exponent, less)
        if function in REPRESENTS:
            return g.constant(ONE)
        return single(Apply(f"slope {position} {function}", tuple(arguments)))


def _constantly(value: SumOfProducts) -> Callable[[], SumOfProducts]:
    return lambda: value


def _scaled(bound: SumOfProducts, by: Fraction) -> SumOfProducts:
    return tuple(replace(p, coefficient=by * p.coefficient) for p in bound) if by else ()


def _without(product: Product, divisor: Product) -> Product | None:
    """Return product / divisor if the product has all of the divisor's factors, else None."""
    left = list(product.factors)
    for factor in divisor.factors:
        if factor not in left:
            return None
        left.remove(factor)
    return replace(product, coefficient=product.coefficient / divisor.coefficient, factors=tuple(left))


def _summed(total: SumOfProducts, names: tuple[str, ...], guards: tuple[Guard, ...]) -> SumOfProducts:
    """Return the sum of `total` over the named variables, under the guards."""
    return tuple(replace(p, binders=names + p.binders, guards=guards + p.guards) for p in total)


def _own_roundings(
    parts: Sequence[tuple[SumOfProducts, SumOfProducts]],
) -> tuple[Fraction, list[SumOfProducts]]:
    """Return the largest c such that every part's error contains c times its own magnitude, and the rest of the errors.

    The selected part's own rounding is then c times the magnitude of the selected value.
    """
    counts = []
    for value, error in parts:
        if value:
            counts.append(
                sum((p.coefficient for p in error if replace(p, coefficient=ONE) in magnitude(value)), Fraction(0))
            )
    own = min(counts, default=Fraction(0))
    rest = []
    for value, error in parts:
        left, found = own, []
        for p in error:
            if replace(p, coefficient=ONE) in magnitude(value):
                gone = min(left, p.coefficient)
                left -= gone
                p = replace(p, coefficient=p.coefficient - gone)
            if p.coefficient:
                found.append(p)
        rest.append(tuple(found))
    return own, rest


# Functions x -> x^p, by p
_POWERS = {"sqrt": Fraction(1, 2), "reciprocal": ONE}
# Functions of integers, and those that ONNX defines as selections.
_EXACT = frozenset({"floor", "round", "truncate", "truncated_quotient"})

# x - x = 0 and x / x = 1 are exact in floating point, whatever the error of x.
_EXACT_OF_EQUALS = frozenset({"Sub", "Div"})


def is_rounded(scalar: Rounded) -> bool:
    """Return True if the error has a rounding of the whole value."""
    return bool(_own_roundings([(scalar.value, scalar.error)])[0])


class RoundedMeaning(Meaning):
    """Evaluates terms with their error bounds. Operators on integers and truth values round nothing.

    The errors of the terms in `harmless` are left out: the result does not depend on their values.
    """

    def __init__(self, algebra: Rounding, harmless: Collection[Term] = ()) -> None:
        super().__init__(algebra)
        self._harmless = harmless

    def scalar(self, term: Term, index: Sizes) -> Any:
        """Return the scalar with its error settled: no other operator extends a summation."""
        found = super().scalar(term, index)
        if term in self._harmless:
            return Rounded(found.value)
        return Rounded(found.value, found.error) if found.pending else found

    def _define(self, term: Term, index: Sizes) -> Any:
        if is_computed_by_others(term):
            return self.scalar(as_computed(term), index)
        found = super()._define(term, index)
        node = node_of(term)
        if node.op not in OPERATORS:
            return found
        types = [x.type.dtype for x in (term, *node.inputs) if x is not None and x.type is not None]
        reals = FLOAT_DTYPES.intersection(types)
        if node.op == "Cast" and len(reals) == 2:  # the operand's error is in units of another type's roundoff
            unit = single(Real(f"unit roundoff of {types[1]} in {types[0]}"))
            return Rounded(found.value, self.algebra.times(found.error, unit))  # type: ignore[attr-defined]
        same = node.op in _EXACT_OF_EQUALS and node.inputs[0] == node.inputs[1]
        return found if reals and not same else Rounded(found.value)
