"""Equality of two outputs at every index: digit by digit of the index, operand by operand, and as sums of products."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from superopt.ir.dim import Size, Sizes, symbol
from superopt.ir.term import Term, topological
from superopt.ops.algebra import Algebra, Guard, at_least, below
from superopt.ops.meaning import Meaning
from verify.prove.assumptions import Everywhere, partial_applications
from verify.prove.bound_variables import free_quotients, strided, vanishing
from verify.prove.compare import Comparison
from verify.prove.congruence import differing_operands
from verify.prove.facts import Effort, Facts
from verify.prove.output_digits import by_digits
from verify.prove.substitution import Substitution
from verify.prove.sums import Bound, SumOfProducts
from verify.prove.symbolic import Symbolic

__all__ = [
    "QUESTIONS", "defined_everywhere", "element_types", "equal_terms", "output_bounds", "output_place", "same_output",
]  # fmt: skip

QUESTIONS = 2_000  # queries to the solver in one reading; the longest known proof needs 1,432


def element_types(terms: Iterable[Term]) -> dict[str, str]:
    """Return the element types of the variables, by their names, without those of type "float"."""
    return {
        str(t.attr("name")): t.type.dtype
        for t in topological(terms)
        if t.op == "Var" and t.type is not None and t.type.dtype != "float"
    }


def output_place(term: Term) -> tuple[Size, ...]:
    """Return the symbolic index of an output: i!0, i!1, ..., and 0 along axes of size 1."""
    assert term.type is not None and term.type.shape is not None
    return tuple(0 if size == 1 else symbol(f"i!{d}") for d, size in enumerate(term.type.shape))


def output_bounds(place: Sizes, shape: Sizes) -> list[Guard]:
    """Return the bounds of an output's index: 0 <= i < size along each axis that is not of size 1."""
    return [g for i, size in zip(place, shape, strict=True) if size != 1 for g in (at_least(i, 0), below(i, size))]


def defined_everywhere(algebra: Algebra, sums: Symbolic, left: Iterable[Term]) -> list[Everywhere]:
    """Return the relations to 0 that hold if every element of every output of `left` is defined."""
    found: list[Everywhere] = []
    for term in left:
        assert term.type is not None and term.type.shape is not None
        place = output_place(term)
        names = tuple(str(i) for i in place if not isinstance(i, int))
        bounds = tuple(output_bounds(place, term.type.shape))
        for relation, one in dict.fromkeys(partial_applications(Meaning(algebra).scalar(term, place), branches=False)):
            every = Bound((*names, *one.binders), (*bounds, *one.guards), one.value)
            found.append((relation, sums.renamed_bound(every)))
    return found


def same_output(
    algebra: Algebra,
    sums: Symbolic,
    comparison: Comparison,
    facts: Facts,
    left: Term,
    right: Term,
    defined: Sequence[Everywhere],
) -> bool:
    """Return True if two outputs are shown to be equal at every index, in one reading, where `defined` holds.

    The reading is an `algebra` of proofs and that of the compared `sums`. Raises Effort and Inexact.
    """
    assert left.type is not None and left.type.shape is not None
    operands = differing_operands(left, right)
    if operands and all(_same_operand(algebra, sums, comparison, facts, a, b) for a, b in operands):
        return True
    place = output_place(left)
    bounds = output_bounds(place, left.type.shape)
    meaning = Meaning(algebra)
    sides = meaning.scalar(left, place), meaning.scalar(right, place)
    inside = facts.extended(bounds)
    # floor(i / n) is 0 for an index i along n elements: by_digits would split it.
    zero = Substitution({}, vanishing(inside, free_quotients(sides[0] + sides[1])))
    whole = by_digits(sums, len(place), inside.guards, tuple(zero.sum(sums, side) for side in sides))

    def equal(guards: Sequence[Guard], left: SumOfProducts, right: SumOfProducts) -> bool:
        return comparison.equal_outputs(facts.rebuilt(guards), left, right, defined)

    if all(equal(here, *parts) for here, parts in _residues(sums, whole.names, whole.guards, whole.sums)):
        return True
    cases = list(whole.cases(sums))
    return bool(cases) and all(equal(case.guards, *case.sums) for case in cases)


def _same_operand(
    algebra: Algebra, sums: Symbolic, comparison: Comparison, facts: Facts, left: Term, right: Term
) -> bool:
    """Return True if two operands are shown to be defined and equal, whatever their users are."""
    own, meaning = Comparison(sums), Meaning(algebra)
    try:
        values = (meaning.scalar(side, output_place(side)) for side in (left, right))
        if any(any(partial_applications(value, branches=True)) for value in values):
            return False
        if not same_output(algebra, sums, own, facts, left, right, []):
            return False
    except Effort:
        return False
    finally:
        facts.shared.allow(QUESTIONS)
    comparison.cases += own.cases
    return True


def equal_terms(left: Term, right: Term, facts: Facts) -> bool:
    """Return True if two terms of one type are shown to be equal over the reals where the left one is defined."""
    sums = Symbolic(element_types((left, right)))
    facts.shared.allow(QUESTIONS)
    try:
        return same_output(sums, sums, Comparison(sums), facts, left, right, defined_everywhere(sums, sums, (left,)))
    except Effort:
        return False
    finally:
        facts.shared.allow(None)


def _residues(
    sums: Symbolic, names: Sequence[str], guards: Sequence[Guard], sides: tuple[SumOfProducts, ...]
) -> Iterator[tuple[Sequence[Guard], tuple[SumOfProducts, ...]]]:
    """Yield the cases i = q * s + 0, ..., i = q * s + s - 1 of an output index i that a guard relates to a stride s."""
    found = strided(names, sides[0] + sides[1]) if sums.tabulated else None
    if found is None:
        yield guards, sides
        return
    name, stride = found
    quotient = sums.fresh()
    for rest in range(stride):
        moved = Substitution({name: symbol(quotient) * stride + rest})
        parts = tuple(moved.sum(sums, side) for side in sides)
        yield from _residues(sums, [quotient, *(n for n in names if n != name)], moved.guards(guards), parts)
