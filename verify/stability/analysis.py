"""Comparison of the error bounds of both sides of a rule at a signature."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from fractions import Fraction
from typing import TypeAlias

from superopt.ir.dim import NoValue, evaluate, symbol
from superopt.ir.operator import IllTyped
from superopt.ir.rule import Condition, Rule, Signature
from superopt.ir.term import Term
from superopt.ops.meaning import Meaning, NoSemantics
from verify.prove.assumptions import Given
from verify.prove.compare import Comparison
from verify.prove.congruence import differing_operands
from verify.prove.facts import Effort, Facts
from verify.prove.prover import element_types, equal_terms, facts_of, output_bounds, output_place, solved_sizes
from verify.prove.specialize import resized
from verify.prove.sums import Bound
from verify.prove.symbolic import Symbolic
from verify.stability.classes import EXACT, UNSTABLE, Stability
from verify.stability.factors import FactorSearch, Terms, shape_of
from verify.stability.normwise import normwise_factor
from verify.stability.ranges import before_results, exponents, is_bounded
from verify.verdict import Proved

_STEPS = 6_000
_FRAMES = 10_000

__all__ = ["forward_stability", "stability"]

Directions: TypeAlias = tuple[Stability, Stability]


def stability(rule: Rule, signature: Signature, proof: Proved) -> Directions:
    """Return the classes of the rule and of the reversed rule at a signature where `proof` holds."""
    return _classes(rule, signature, proof, both=True)


def forward_stability(rule: Rule, signature: Signature, proof: Proved) -> Stability:
    """Return the class of the rule only. That the reversed one is unstable takes most of the time to find out."""
    return _classes(rule, signature, proof, both=False)[0]


def _classes(rule: Rule, signature: Signature, proof: Proved, *, both: bool) -> Directions:
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
        factors = FactorSearch(facts, both).factors(left, right)
        forward = _class(left, right, factors[0] if _in_range(left, right, facts) else None, facts)
        if not both:
            return forward, UNSTABLE
        backward = _class(right, left, factors[1] if _in_range(right, left, facts) else None, facts)
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
    given = Given(facts.extended(output_bounds(place, shape_of(one))))
    sets = []
    for other in others:
        index = tuple(0 if isinstance(i, int) else symbol(f"j!{d}") for d, i in enumerate(output_place(other)))
        names = tuple(str(i) for i in index if not isinstance(i, int))
        every = Bound(names, tuple(output_bounds(index, shape_of(other))), meaning.scalar(other, index))
        sets.append(sums.renamed_bound(every))
    return comparison.each_is_among(given, meaning.scalar(one, place), sets)
