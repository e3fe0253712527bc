"""Decide signs of scalars (> 0, >= 0, == 0, != 0): by their form, by assumptions, or by Z3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from superopt.ops.algebra import at_least
from verify.prove.assumptions import DEFINED, Given, Sign
from verify.prove.bound_variables import inhabited
from verify.prove.real_queries import Constraint, Polynomial, RealQuery, has_known_solution, refuted
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
    number_in,
    single,
)

__all__ = ["Signs"]

ONE = Fraction(1)
# Functions with positive values only, and functions with values strictly between two bounds.
_POSITIVE = frozenset({"exp", "sigmoid"})
_BETWEEN = {"sigmoid": (0, 1), "tanh": (-1, 1), "erf": (-1, 1)}

# Decides equality of two factors under assumptions.
Same: TypeAlias = Callable[[Given, Factor, Factor], bool]
# Decides if a value is one of the values of a bound.
Instance: TypeAlias = Callable[[Given, Bound, SumOfProducts], bool]


class Signs:
    """Decides signs and keeps the answers. `observe` is called with the queries that Z3 found unsatisfiable."""

    def __init__(self, same: Same, instance: Instance, observe: Callable[[RealQuery], None]) -> None:
        self.same, self._instance, self._observe = same, instance, observe
        self._known: dict[tuple[object, ...], bool] = {}
        self._answers: dict[RealQuery, bool] = {}

    def holds(self, given: Given, sign: Sign) -> bool:
        """Return True if `sign` is shown to hold. False means "not shown"."""
        sign = Sign(sign.relation, _nonzero(sign.value))
        number = number_in(sign.value)
        if number is not None:
            return {">": number > 0, ">=": number >= 0, "==": number == 0, "!=": number != 0}[sign.relation]
        form = self.of_sum(given, sign.value)
        if form == ">" and sign.relation != "==":
            return True
        if form == ">=" and sign.relation == ">=":
            return True
        if sign in given.signs or (sign.relation == ">=" and Sign(">", sign.value) in given.signs):
            return True
        key = (given.facts, given.signs, given.defined, sign)
        if key not in self._known:
            self._known[key] = False  # while it is being decided
            self._known[key] = (
                self._by_definedness(given, sign) or self._by_parts(given, sign) or self._by_solver(given, sign)
            )
        return self._known[key]

    def contradictory(self, given: Given) -> bool:
        """Return True if the given signs are shown to contradict each other."""
        return bool(given.signs) and self._by_solver(given, None)

    def defined(self, given: Given, power: SumOfProducts) -> bool:
        """Return True if an equal power is given as defined."""
        return self._by_definedness(given, Sign(DEFINED, power))

    def _is_given(self, given: Given, sign: Sign) -> bool:
        form = self.of_sum(given, sign.value)
        return form == ">" or form == sign.relation or self._by_definedness(given, sign)

    def _by_definedness(self, given: Given, sign: Sign) -> bool:
        if sign.relation == "==":
            return False
        enough = {"!=": ("!=", ">"), ">=": (">=", ">"), ">": (">",), DEFINED: (DEFINED,)}[sign.relation]
        return any(
            relation in enough and self._instance(given, everywhere, sign.value)
            for relation, everywhere in given.defined
        )

    def _by_parts(self, given: Given, sign: Sign) -> bool:
        """Decide by factors: a product is positive, or not 0, if its factors are;  sqrt(f) > 0 for f > 0;  1/f != 0."""
        if len(sign.value) != 1 or sign.relation == "==" or sign.value[0].binders or sign.value[0].guards:
            return False
        (product,) = sign.value
        if sign.relation != "!=" and product.coefficient < 0:
            return False
        if product != Product(ONE, product.factors[:1]):
            return all(self.holds(given, Sign(sign.relation, single(factor))) for factor in product.factors)
        match product.factors[0]:
            case Apply("sqrt", (argument,)):
                return sign.relation == ">=" or self.holds(given, Sign(">", argument))
            case Apply("reciprocal", (argument,)):
                return self.holds(given, Sign("!=" if sign.relation == "!=" else ">", argument))
            case Maximum(alternatives) if sign.relation != "!=":
                free = [a.value for a in alternatives if not a.binders and not a.guards]
                if any(self.holds(given, Sign(sign.relation, value)) for value in free):
                    return True
                some = any(inhabited(given.facts, a.binders, a.guards) for a in alternatives)
                return some and all(
                    self.holds(given.extended(a.guards), Sign(sign.relation, a.value)) for a in alternatives
                )
        return False

    # by form

    def of_sum(self, given: Given, total: SumOfProducts) -> str | None:
        """Return the sign of a sum, ">" or ">=", if its form shows it, else None."""
        found = [self._of_product(given, p) for p in _nonzero(total)]
        if not found or any(sign is None for sign in found):
            return None if found else ">="
        return ">" if ">" in found else ">="

    def _of_product(self, given: Given, product: Product) -> str | None:
        if product.coefficient < 0:
            return None
        here = given.extended(product.guards) if product.guards else given
        signs: list[str] = []
        for factor, times in Counter(product.factors).items():
            sign = self.of_factor(here, factor)
            if sign is None and times % 2:
                return None
            signs.append(">=" if sign is None else sign)
        if ">=" in signs:
            return ">="
        if (product.binders or product.guards) and not inhabited(given.facts, product.binders, product.guards):
            return ">="
        return ">"

    def of_factor(self, given: Given, factor: Factor) -> str | None:
        """Return the sign of a factor, ">" or ">=", if its form shows it, else None."""
        match factor:
            case Apply(function, _) if function in _POSITIVE:
                return ">"
            case Apply("sqrt", (argument,)):
                return ">" if self.of_sum(given, argument) == ">" else ">="
            case Apply("reciprocal", (argument,)):
                return self.of_sum(given, argument)
            case Quantity(size):
                if given.facts.entails(at_least(size, 1)):
                    return ">"
                return ">=" if given.facts.entails(at_least(size, 0)) else None
            case Access(_, _, "bool"):
                return ">="
            case Choice(_, _, yes, no):
                both = {self.of_sum(given, yes), self.of_sum(given, no)}
                return None if None in both else ">=" if ">=" in both else ">"
            case Maximum(alternatives):
                free = [self.of_sum(given, a.value) for a in alternatives if not a.binders and not a.guards]
                if free:
                    return ">" if ">" in free else ">=" if ">=" in free else None
                if not any(inhabited(given.facts, a.binders, a.guards) for a in alternatives):
                    return None  # the maximum of no values has no lower bound
                every = {self.of_sum(given.extended(a.guards), a.value) for a in alternatives}
                return None if None in every else ">=" if ">=" in every else ">"
            case Repeated(over):
                return self.of_sum(given.extended(over.guards), over.value)
        return None

    # by solver

    def _by_solver(self, given: Given, sign: Sign | None) -> bool:
        """Return True if Z3 answers unsat for (given signs and not sign).

        Its unknowns are factors, and whole products over bound variables.
        """
        atoms = _Atoms(given, self.same)
        constraints = [Constraint(s.relation, atoms.polynomial(s.value)) for s in given.signs]
        constraints += [
            Constraint(relation, atoms.polynomial(everywhere.value))
            for relation, everywhere in given.defined
            if relation != DEFINED and not everywhere.binders and all(given.facts.entails(g) for g in everywhere.guards)
        ]
        if sign is not None:
            constraints.append(Constraint(sign.relation, atoms.polynomial(sign.value)).negated())
        number = 0
        while number < len(atoms.found):  # `_about` may add atoms
            constraints += self._about(given, atoms, number)
            number += 1
        query = RealQuery(tuple(constraints))
        if query not in self._answers:
            self._answers[query] = not has_known_solution(query) and refuted(query, given.facts.shared.context)
        if self._answers[query]:
            self._observe(query)
        return self._answers[query]

    def _about(self, given: Given, atoms: _Atoms, number: int) -> list[Constraint]:
        """Return the constraints on an atom that follow from its form."""
        unknown: Polynomial = ((ONE, (number,)),)
        atom = atoms.found[number]
        factor = atom.factors[0] if len(atom.factors) == 1 and not (atom.binders or atom.guards) else None
        if isinstance(factor, Access) and factor.truth:
            return [Constraint("truth", unknown)]
        found: list[Constraint] = []
        if isinstance(factor, Apply) and factor.function in _BETWEEN:
            low, high = _BETWEEN[factor.function]
            found.append(Constraint(">", (*unknown, (Fraction(-low), ()))))
            found.append(Constraint(">", ((-ONE, (number,)), (Fraction(high), ()))))
        if isinstance(factor, Apply) and factor.function == "exp":
            # exp(x) >= 1 + x, and so for -x: 1 >= (1 - x) * exp(x)
            x = atoms.polynomial(factor.arguments[0])
            minus = tuple((-coefficient, unknowns) for coefficient, unknowns in x)
            found.append(Constraint(">=", (*unknown, (-ONE, ()), *minus)))
            found.append(Constraint(">=", ((ONE, ()), (-ONE, (number,)), *((c, (*names, number)) for c, names in x))))
        if isinstance(factor, Apply) and factor.function in ("reciprocal", "sqrt"):
            relation = "!=" if factor.function == "reciprocal" else ">="
            # The factor occurs in the proof, but that does not make it defined here.
            if self._is_given(given, Sign(relation, factor.arguments[0])):
                x = atoms.polynomial(factor.arguments[0])
                if relation == "!=":  # x * 1/x = 1
                    found.append(Constraint("==", ((-ONE, ()), *((c, (*names, number)) for c, names in x))))
                else:  # sqrt(x) * sqrt(x) = x
                    found.append(Constraint("==", ((ONE, (number, number)), *((-c, names) for c, names in x))))
        for alternative in factor.alternatives if isinstance(factor, Maximum) else ():
            if not alternative.binders and not alternative.guards:
                value = atoms.polynomial(alternative.value)
                found.append(Constraint(">=", (*unknown, *((-c, names) for c, names in value))))
        sign = self._of_product(given, atom)
        if sign is not None:
            found.append(Constraint(sign, unknown))
        return found


class _Atoms:
    """Numbers the atoms that become the solver's unknowns; equal atoms get the same number."""

    def __init__(self, given: Given, same: Same) -> None:
        self._given, self._same = given, same
        self.found: list[Product] = []

    def polynomial(self, total: SumOfProducts) -> Polynomial:
        """Return the sum as a polynomial in the atoms' numbers."""
        return tuple((p.coefficient, self._unknowns(p)) for p in total)

    def _unknowns(self, product: Product) -> tuple[int, ...]:
        if product.binders or product.guards:
            return (self._number(Product(ONE, product.factors, product.binders, product.guards)),)
        return tuple(self._number(Product(ONE, (factor,))) for factor in product.factors)

    def _number(self, atom: Product) -> int:
        for number, other in enumerate(self.found):
            if other == atom:
                return number
            one, two = atom.factors, other.factors
            simple = not (atom.binders or atom.guards or other.binders or other.guards)
            if simple and self._same(self._given, one[0], two[0]):
                return number
        self.found.append(atom)
        return len(self.found) - 1


def _nonzero(total: SumOfProducts) -> SumOfProducts:
    """Drop products with coefficient 0, which only record that a function must be defined."""
    return tuple(p for p in total if p.coefficient)
