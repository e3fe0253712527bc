"""Comparison of the error bounds of both sides of a rule at a signature."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from superopt.ir.dim import NoValue, Sizes, evaluate, symbol, symbols_of
from superopt.ir.infer import replace
from superopt.ir.operator import IllTyped
from superopt.ir.rule import Condition, Rule, Signature
from superopt.ir.term import Term, topological, var
from superopt.ops.algebra import Guard, equal
from superopt.ops.meaning import Meaning, NoSemantics
from verify.prove.assumptions import Given, Sign, partial_applications
from verify.prove.compare import Comparison, free_guards, splits
from verify.prove.congruence import differing_operands
from verify.prove.facts import Effort, Facts, Shared
from verify.prove.normal_form import shown
from verify.prove.output_digits import Indexed, by_digits
from verify.prove.outputs import element_types, equal_terms, output_bounds, output_place
from verify.prove.prover import facts_of, solved_sizes
from verify.prove.recurrence import apart, in_steps
from verify.prove.specialize import resized
from verify.prove.sums import Bound, Entry, Factor, SumOfProducts, children
from verify.prove.symbolic import Symbolic
from verify.stability.classes import EXACT, UNSTABLE, Stability
from verify.stability.computation import computes_alike
from verify.stability.inequalities import Inequalities, Inequality
from verify.stability.linear_program import LinearPrograms
from verify.stability.monomials import Monomials
from verify.stability.normwise import normwise_factor
from verify.stability.ranges import before_results, exponents, is_bounded
from verify.stability.rounding import RoundedMeaning, Rounding, is_rounded, magnitude
from verify.stability.structure import broadcast_parts, congruent, functions, is_function, shared_apart, unfolded
from verify.verdict import Proved

_STEPS = 6_000
_FRAMES = 10_000
_MOST_SIGNS = 4  # nested case splits
_QUERIES = 6_000
_POWERS = ("Reciprocal", "Sqrt")

Terms: TypeAlias = tuple[Term, ...]
Factors: TypeAlias = list[Fraction | None]  # of both directions
Directions: TypeAlias = tuple[Stability, Stability]


def stability(rule: Rule, signature: Signature, proof: Proved) -> Directions:
    """Return the classes of the rule and of the reversed rule at a signature where `proof` holds."""
    if proof.numerics == "exact":
        return EXACT, EXACT
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        left, right = rule.instantiate(signature)
        env = solved_sizes(proof.conditions)
        left, right = resized(left, env), resized(right, env)
        conditions = [Condition(c.relation, evaluate(c.left, env), evaluate(c.right, env)) for c in proof.conditions]
        facts = facts_of(conditions, left + right, None)
        factors = _factors(left, right, facts)
        ways = [_in_range(left, right, facts), _in_range(right, left, facts)]
        forward = _class(left, right, factors[0] if ways[0] else None, facts)
        backward = _class(right, left, factors[1] if ways[1] else None, facts)
    except (IllTyped, NoSemantics, NoValue, Effort, RecursionError):
        return UNSTABLE, UNSTABLE
    finally:
        sys.setrecursionlimit(limit)
    return forward, backward


def _class(left: Terms, right: Terms, factor: Fraction | None, facts: Facts) -> Stability:
    """Return the class of a direction with this factor of a bound element by element."""
    if factor is not None:
        return Stability.bounded("stable", factor)
    factors = [_normwise(a, b, facts) for a, b in zip(left, right, strict=True) if a is not b]
    known = [factor for factor in factors if factor is not None]
    return Stability.bounded("normwise", max(known)) if known and len(known) == len(factors) else UNSTABLE


def _normwise(left: Term, right: Term, facts: Facts) -> Fraction | None:
    """Return the factor by norms of two equal terms, or of the operands in which they differ; None if there is none.

    An operator of such operands rounds alike on both sides, and its error bound grows with theirs.
    """
    if (found := normwise_factor(left, right)) is not None:
        return found
    worst = None
    for a, b in differing_operands(left, right):
        factor = _normwise(a, b, facts) if equal_terms(a, b, facts) else None
        if factor is None:
            return None
        worst = max(factor, worst or factor)
    return worst


def _factors(left: Terms, right: Terms, facts: Facts) -> Factors:
    """Return the factors of both directions, the largest of all outputs; None if none is proven."""
    left, right = apart(in_steps(left), in_steps(right))
    tabulated = any(term.op == "Constant" for term in topological(left + right))
    pairs = [(one, other) for one, other in zip(left, right, strict=True) if one is not other]
    return _worst(_terms(one, other, facts, tabulated) for one, other in pairs)


def _terms(left: Term, right: Term, facts: Facts, tabulated: bool) -> Factors:
    """Return the factors of two equal terms: operand by operand, or with shared parts as variables, or as a whole."""
    if computes_alike(left, right, output_place(left)):
        return [Fraction(1), Fraction(1)]
    found = _operands(left, right, facts, tabulated)
    if found is not None:
        return found
    (one,), (other,) = unfolded((left,)), unfolded((right,))
    if (one, other) != (left, right):
        found = _operands(one, other, facts, tabulated)
        if found is not None:
            return found
    if tabulated:
        return _outputs(left, right, facts, tabulated)
    found = _shared(one, other, facts) or _outputs(left, right, facts, tabulated)
    if None in found:
        alike = _functions(one, other, facts) or found
        found = [b if a is None else a for a, b in zip(found, alike, strict=True)]
    return found


def _functions(left: Term, right: Term, facts: Facts) -> Factors | None:
    """Return the factors with functions of one operand on the right side as on the left, None if there are none.

    Sigmoid(a) and Sigmoid(b) with a = b round alike, and their errors grow with those of a and b. So both count as one
    part that the sides share, and the factors of a and b limit those of the whole.
    """
    new: dict[Term, Term] = {}
    found: list[Factors] = []
    stack = [right]
    while stack:
        term = stack.pop()
        pairs = ((f, _operands(f, term, facts, False)) for f in functions(left) if f is not term)
        same = next(((f, factors) for f, factors in pairs if factors is not None), None) if is_function(term) else None
        if same is None:
            stack += [i for i in term.inputs if i is not None]
        elif term not in new:
            new[term] = same[0]
            found.append(same[1])
    if not new:
        return None
    (alike,) = replace((right,), new)
    local = _shared(left, alike, facts)
    return None if local is None else _worst([local, *found])


def _shared(left: Term, right: Term, facts: Facts) -> Factors | None:
    """Return the factors with variables in place of shared parts, None if the sides are not equal for all values."""
    found = next((apart for apart in shared_apart(left, right) if equal_terms(*apart[:2], facts)), None)
    if found is None:
        return None
    one, other, shared = found
    meaning = RoundedMeaning(Rounding(Symbolic(element_types((left, right)))))
    # Other functions may saturate: Sigmoid is then 1, without a rounding.
    parts = {name: part for name, part in shared.items() if part.op in _POWERS or not is_function(part)}
    rounded = [name for name, part in parts.items() if is_rounded(meaning.scalar(part, output_place(part)))]
    fractions = [name for name, part in shared.items() if part.op == "Sigmoid"]
    return _outputs(one, other, facts, False, rounded, fractions)


def _operands(left: Term, right: Term, facts: Facts, tabulated: bool) -> Factors | None:
    """Return the worst factors of the operands if both terms are, or unfold to, one operator of equal operands.

    The operator then rounds alike on both sides, and an error bound grows with those of the operands. Else return None.
    """

    def same_type(one: Term, other: Term) -> bool:
        if one.type is None or other.type is None or one.type.dtype != other.type.dtype:
            return False
        ours, theirs = _shape(one), _shape(other)
        return len(ours) == len(theirs) and all(
            m == n or (1 not in (m, n) and facts.entails(equal(m, n))) for m, n in zip(ours, theirs, strict=True)
        )

    composite = differing_operands(left, right)
    for pairs in (*congruent(left, right, same_type), *([composite] if composite else [])):
        differing = [(a, b) for a, b in pairs if a is not b]
        if all(equal_terms(a, b, facts) for a, b in differing):
            found = _worst(_terms(a, b, facts, tabulated) for a, b in differing)
            return [None if factor is None else max(factor, Fraction(1)) for factor in found]
    return None


def _in_range(left: Terms, right: Terms, facts: Facts) -> bool:
    """Return True if the right side exponentiates only what the left side does, or what is bounded, or for a result."""
    known = tuple(dict.fromkeys(exponents(left)))
    new = [one for one in dict.fromkeys(exponents(before_results(right))) if one not in known and not is_bounded(one)]
    if not new:
        return True
    sums = Symbolic(element_types(left + right))
    meaning = Meaning(sums)
    return all(_occurs(one, known, sums, meaning, facts) for one in new)


def _occurs(one: Term, others: Iterable[Term], sums: Symbolic, meaning: Meaning, facts: Facts) -> bool:
    """Return True if each element of one tensor is an element of one of the others."""
    comparison = Comparison(sums, _STEPS)
    place = output_place(one)
    given = Given(facts.extended(output_bounds(place, _shape(one))))
    sets = []
    for other in others:
        index = tuple(0 if isinstance(i, int) else symbol(f"j!{d}") for d, i in enumerate(output_place(other)))
        names = tuple(str(i) for i in index if not isinstance(i, int))
        every = Bound(names, tuple(output_bounds(index, _shape(other))), meaning.scalar(other, index))
        sets.append(sums.renamed_bound(every))
    return comparison.each_is_among(given, meaning.scalar(one, place), sets)


def _shape(term: Term) -> Sizes:
    assert term.type is not None and term.type.shape is not None
    return term.type.shape


def _outputs(
    left: Term,
    right: Term,
    facts: Facts,
    tabulated: bool,
    rounded: Sequence[str] = (),
    fractions: Sequence[str] = (),
) -> Factors:
    """Return the factors of two terms.

    The tensors in `rounded` are results of rounded operations, the elements of those in `fractions` are from 0 to 1.
    """
    sums = Symbolic(element_types((left, right)), tabulated=tabulated)
    place = output_place(left)
    here = facts.extended(output_bounds(place, _shape(left)))
    harmless = _harmless(left, right, facts) + _harmless(right, left, facts)
    meaning = RoundedMeaning(Rounding(sums, rounded, _decided_by(here)), harmless)
    one, other = meaning.scalar(left, place), meaning.scalar(right, place)
    whole = by_digits(sums, len(place), here.guards, (one.error, other.error, one.value, other.value))
    comparison = Comparison(sums, _STEPS)
    bounds = _Bounds(sums, comparison, fractions, facts.shared)

    def factors(case: Indexed) -> Factors:
        sides = Sides(*case.sums)
        if _same_text(sides.before, sides.after):
            return [Fraction(1), Fraction(1)]
        if tabulated and any(isinstance(f, Entry) for f in _factors_in(sides.before + sides.after)):
            return [None, None]  # sums over tables have too many cases
        defined = tuple(dict.fromkeys(partial_applications(sides.left + sides.right, branches=False)))
        given = Given(facts.rebuilt(case.guards), (), defined)
        return bounds.compared(given, sides)

    facts.shared.allow(_QUERIES)
    try:
        found = factors(whole)
        cases = list(whole.cases(sums)) if None in found else []
        return _worst(map(factors, cases)) if cases else found
    except Effort:
        return [None, None]
    finally:
        facts.shared.allow(None)


def _decided_by(facts: Facts) -> Callable[[Guard], bool | None]:
    """Return the function that decides conditions on the output's index and the sizes, where the facts do."""
    known = frozenset[str]().union(*(symbols_of(guard.value) for guard in facts.guards))

    def decided(guard: Guard) -> bool | None:
        if guard.decided() is not None or not symbols_of(guard.value) <= known:
            return guard.decided()
        return True if facts.entails(guard) else False if facts.refutes(guard) else None

    return decided


def _harmless(side: Term, other: Term, facts: Facts) -> list[Term]:
    """Return parts of one side whose values do not matter, because the sides are equal for any value of the part.

    Such a part is rounded once for several elements, so that its error cancels: exp(a - s) / sum of exp(a - s) is the
    same for any s that does not depend on the index of the sum.
    """
    found: list[Term] = []
    for part in broadcast_parts(side):
        assert part.type is not None
        (free,) = replace((side,), {part: var("free!", part.type)})
        if part not in topological((other,)) and equal_terms(other, free, facts):
            found.append(part)
    return found


@dataclass(frozen=True)
class Sides:
    """The error bounds of both sides at one index, and their values."""

    before: SumOfProducts
    after: SumOfProducts
    left: SumOfProducts
    right: SumOfProducts

    def mapped(self, change: Callable[[SumOfProducts], SumOfProducts]) -> Sides:
        return Sides(*map(change, (self.before, self.after, self.left, self.right)))


class _Bounds:
    """Compares bounds by cases, as `verify.prove.compare` compares values."""

    def __init__(self, algebra: Symbolic, comparison: Comparison, fractions: Sequence[str], shared: Shared) -> None:
        self._algebra, self._comparison, self._fractions = algebra, comparison, fractions
        self._programs = LinearPrograms(shared)

    def compared(self, given: Given, sides: Sides) -> Factors:
        if given.facts.inconsistent():
            return [Fraction(0), Fraction(0)]
        guard = self._open_guard(given, sides)
        if guard is None:
            sides = sides.mapped(lambda total: self._comparison.normal_form(given, total))
            if _same_text(sides.before, sides.after):
                return [Fraction(1), Fraction(1)]
            guard = self._open_guard(given, sides)
        if guard is not None:
            if guard.relation == "==":
                cases = [guard, Guard("<=", -guard.value - 1), Guard("<=", guard.value - 1)]
            else:
                cases = [guard, guard.negated()]
            return _worst(self.compared(given.extended([case]), sides) for case in cases)
        found = self._by_inequalities(given, sides)
        if None in found and len(given.signs) < _MOST_SIGNS:
            by_signs = self._by_signs(given, sides)
            found = [a if a is not None else b for a, b in zip(found, by_signs, strict=True)]
        return found

    def _open_guard(self, given: Given, sides: Sides) -> Guard | None:
        """Return a guard on the output's index that is not decided here."""
        decided = given.facts.entails, given.facts.refutes
        return next((g for g in free_guards(sides.before + sides.after) if not any(d(g) for d in decided)), None)

    def _by_inequalities(self, given: Given, sides: Sides) -> Factors:
        monomials = Monomials(self._algebra, self._comparison, given)
        before, after = monomials.combination(sides.before), monomials.combination(sides.after)
        values = [monomials.combination(magnitude(value)) for value in (sides.left, sides.right)]
        known = [Inequality(values[0], values[1]), Inequality(values[1], values[0])]  # they are proven to be equal
        found: Factors = [None, None]
        for more in Inequalities(self._algebra, self._comparison, given, monomials, self._fractions).stages():
            known += more
            smallest = self._programs.smallest_factor
            found = [smallest(before, after, known), smallest(after, before, known)]
            if None not in found:
                break
        return found

    def _by_signs(self, given: Given, sides: Sides) -> Factors:
        """Split on a truth value, a choice or a maximum that mentions no bound variable."""
        split = next(splits(self._algebra, sides.before + sides.after), None)
        if split is None:
            return [None, None]
        cases = []
        for sign in split.cases:
            here = given.assuming(Sign(sign.relation, self._comparison.normal_form(given, sign.value)))
            if here is given:
                return [None, None]
            if not self._comparison.contradictory(here):
                cases.append(here)
        return _worst(self.compared(here, sides) for here in cases)


def _same_text(one: SumOfProducts, other: SumOfProducts) -> bool:
    """Return True if two sums are equal up to the names of bound variables, as after a move of data."""
    texts = [sorted(f"{p.coefficient} {shown(p)}" for p in side) for side in (one, other)]
    return texts[0] == texts[1]


def _factors_in(total: SumOfProducts) -> Iterator[Factor]:
    """Yield all factors in a sum, also those inside others."""
    for product in total:
        for factor in product.factors:
            yield factor
            for _, _, part in children(factor):
                yield from _factors_in(part)


def _worst(cases: Iterable[Factors]) -> Factors:
    found: Factors = [Fraction(0), Fraction(0)]
    for case in cases:
        found = [None if a is None or b is None else max(a, b) for a, b in zip(found, case, strict=True)]
        if found == [None, None]:
            break
    return found
