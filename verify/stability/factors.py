"""The factors between the error bounds of two equal terms: operand by operand, by shared parts, or as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from superopt.ir.dim import Sizes, symbols_of
from superopt.ir.infer import replace
from superopt.ir.term import Term, topological, var
from superopt.ops.algebra import Guard, equal
from verify.prove.assumptions import Given, partial_applications
from verify.prove.compare import Comparison
from verify.prove.congruence import differing_operands
from verify.prove.facts import Effort, Facts
from verify.prove.output_digits import Indexed, by_digits
from verify.prove.prover import element_types, equal_terms, output_bounds, output_place
from verify.prove.recurrence import apart, in_steps
from verify.prove.sums import Entry
from verify.prove.symbolic import Symbolic
from verify.stability.by_cases import BoundsByCases, Factors, Sides, factors_in, first_known, same_text, worst
from verify.stability.computation import computes_alike
from verify.stability.rounding import RoundedMeaning, Rounding, is_rounded
from verify.stability.structure import broadcast_parts, congruent, functions, is_function, shared_apart, unfolded

__all__ = ["FactorSearch", "Terms", "shape_of"]

_STEPS = 6_000
_QUERIES = 6_000
_POWERS = ("Reciprocal", "Sqrt")

Terms: TypeAlias = tuple[Term, ...]


class FactorSearch:
    """Finds factors K with E(right) <= K * E(left), and with `both` also those of the reversed direction.

    Without `both` the factor of the reversed direction is 0.
    """

    def __init__(self, facts: Facts, both: bool) -> None:
        self._facts, self._both = facts, both

    def factors(self, left: Terms, right: Terms) -> Factors:
        """Return the factors of both directions, the largest of all outputs; None if none is proven."""
        left, right = apart(in_steps(left), in_steps(right))
        tabulated = any(term.op == "Constant" for term in topological(left + right))
        pairs = [(one, other) for one, other in zip(left, right, strict=True) if one is not other]
        return worst(self._terms(one, other, tabulated) for one, other in pairs)

    def _terms(self, left: Term, right: Term, tabulated: bool) -> Factors:
        """Return the factors of two equal terms: by operands, with shared parts as variables, or as a whole."""
        if computes_alike(left, right, output_place(left)):
            return [Fraction(1), Fraction(1)]
        found = self._operands(left, right, tabulated)
        if found is not None:
            return found
        (one,), (other,) = unfolded((left,)), unfolded((right,))
        if (one, other) != (left, right):
            found = self._operands(one, other, tabulated)
            if found is not None:
                return found
        if tabulated:
            return self._outputs(left, right, tabulated)
        found = self._shared(one, other) or self._outputs(left, right, tabulated)
        if None in found:
            alike = self._functions(one, other) or found
            found = first_known(found, alike)
        return found

    def _functions(self, left: Term, right: Term) -> Factors | None:
        """Return the factors with functions of one operand on the right side as on the left, None if there are none.

        Sigmoid(a) and Sigmoid(b) with a = b round alike, and their errors grow with those of a and b. So both count as
        one part that the sides share, and the factors of a and b limit those of the whole.
        """
        new: dict[Term, Term] = {}
        found: list[Factors] = []
        stack = [right]
        while stack:
            term = stack.pop()
            pairs = ((f, self._operands(f, term, False)) for f in functions(left) if f is not term)
            known = ((f, factors) for f, factors in pairs if factors is not None)
            same = next(known, None) if is_function(term) else None
            if same is None:
                stack += [i for i in term.inputs if i is not None]
            elif term not in new:
                new[term] = same[0]
                found.append(same[1])
        if not new:
            return None
        (alike,) = replace((right,), new)
        local = self._shared(left, alike)
        return None if local is None else worst([local, *found])

    def _shared(self, left: Term, right: Term) -> Factors | None:
        """Return the factors with variables in place of shared parts, None if the sides are then not equal."""
        found = next((apart for apart in shared_apart(left, right) if equal_terms(*apart[:2], self._facts)), None)
        if found is None:
            return None
        one, other, shared = found
        meaning = RoundedMeaning(Rounding(Symbolic(element_types((left, right)))))
        # Other functions may saturate: Sigmoid is then 1, without a rounding.
        parts = {name: part for name, part in shared.items() if part.op in _POWERS or not is_function(part)}
        rounded = [name for name, part in parts.items() if is_rounded(meaning.scalar(part, output_place(part)))]
        fractions = [name for name, part in shared.items() if part.op == "Sigmoid"]
        return self._outputs(one, other, False, rounded, fractions)

    def _operands(self, left: Term, right: Term, tabulated: bool) -> Factors | None:
        """Return the worst factors of the operands if both terms are, or unfold to, one operator of equal operands.

        The operator then rounds alike on both sides, and an error bound grows with those of the operands. Otherwise
        return None.
        """

        def same_type(one: Term, other: Term) -> bool:
            if one.type is None or other.type is None or one.type.dtype != other.type.dtype:
                return False
            ours, theirs = shape_of(one), shape_of(other)
            return len(ours) == len(theirs) and all(
                m == n or (1 not in (m, n) and self._facts.entails(equal(m, n)))
                for m, n in zip(ours, theirs, strict=True)
            )

        composite = differing_operands(left, right)
        for pairs in (*congruent(left, right, same_type), *([composite] if composite else [])):
            differing = [(a, b) for a, b in pairs if a is not b]
            if all(equal_terms(a, b, self._facts) for a, b in differing):
                found = worst(self._terms(a, b, tabulated) for a, b in differing)
                return [None if factor is None else max(factor, Fraction(1)) for factor in found]
        return None

    def _outputs(
        self,
        left: Term,
        right: Term,
        tabulated: bool,
        rounded: Sequence[str] = (),
        fractions: Sequence[str] = (),
    ) -> Factors:
        """Return the factors of two terms.

        The tensors in `rounded` are results of rounded operations; elements of those in `fractions` are from 0 to 1.
        """
        sums = Symbolic(element_types((left, right)), tabulated=tabulated)
        place = output_place(left)
        here = self._facts.extended(output_bounds(place, shape_of(left)))
        harmless = self._harmless(left, right) + self._harmless(right, left)
        meaning = RoundedMeaning(Rounding(sums, rounded, _decided_by(here)), harmless)
        one, other = meaning.scalar(left, place), meaning.scalar(right, place)
        whole = by_digits(sums, len(place), here.guards, (one.error, other.error, one.value, other.value))
        comparison = Comparison(sums, _STEPS)

        def factors(case: Indexed) -> Factors:
            sides = Sides(*case.sums)
            if same_text(sides.before, sides.after):
                return [Fraction(1), Fraction(1)]
            if tabulated and any(isinstance(f, Entry) for f in factors_in(sides.before + sides.after)):
                return [None, None]  # sums over tables have too many cases
            defined = tuple(dict.fromkeys(partial_applications(sides.left + sides.right, branches=False)))
            given = Given(self._facts.rebuilt(case.guards), (), defined)
            return BoundsByCases(sums, comparison, fractions, self._both).compared(given, sides)

        self._facts.shared.allow(_QUERIES)
        try:
            found = factors(whole)
            cases = list(whole.cases(sums)) if None in found else []
            return first_known(found, worst(map(factors, cases))) if cases else found
        except Effort:
            return [None, None]
        finally:
            self._facts.shared.allow(None)

    def _harmless(self, side: Term, other: Term) -> list[Term]:
        """Return parts of one side whose values do not matter, because the sides are equal for any value of the part.

        Such a part is rounded once for several elements, so that its error cancels: exp(a - s) / sum of exp(a - s) is
        the same for any s that does not depend on the index of the sum.
        """
        found: list[Term] = []
        for part in broadcast_parts(side):
            assert part.type is not None
            (free,) = replace((side,), {part: var("free!", part.type)})
            if part not in topological((other,)) and equal_terms(other, free, self._facts):
                found.append(part)
        return found


def _decided_by(facts: Facts) -> Callable[[Guard], bool | None]:
    """Return the function that decides conditions on the output's index and the sizes, where the facts do."""
    known = frozenset[str]().union(*(symbols_of(guard.value) for guard in facts.guards))

    def decided(guard: Guard) -> bool | None:
        if guard.decided() is not None or not symbols_of(guard.value) <= known:
            return guard.decided()
        return True if facts.entails(guard) else False if facts.refutes(guard) else None

    return decided


def shape_of(term: Term) -> Sizes:
    """Return the shape of a term whose shape is known."""
    assert term.type is not None and term.type.shape is not None
    return term.type.shape
