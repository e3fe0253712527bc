"""Indices that are elements of tensors, and stop the run if they are out of range: each index of the right side must be
one of the left side, along an axis of the same size.

Then the right side runs wherever the left side does, and there `DataIndex` has the meaning that proofs give it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from superopt.ir.dim import Dim, Size
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, node_of, topological
from superopt.ops.algebra import Guard
from superopt.ops.equation import unfold
from superopt.ops.meaning import Meaning
from verify.prove.assumptions import Given
from verify.prove.binders import fewer
from verify.prove.compare import Comparison
from verify.prove.facts import Effort, Facts
from verify.prove.output_digits import by_digits
from verify.prove.outputs import QUESTIONS, element_types, output_bounds, output_place
from verify.prove.sums import Bound
from verify.prove.symbolic import Symbolic

__all__ = ["Lookup", "all_among", "lookups"]

# Operators whose result has exactly the elements of their operand.
_REARRANGEMENTS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
# The tensor of the indices, and the size of the axis along which they are looked up.
Lookup = tuple[Term, Size]


def lookups(terms: Iterable[Term]) -> dict[Lookup, None]:
    """Return the lookups in typed terms, and in the equations of their operators. Raises NoSemantics."""
    found: dict[Lookup, None] = {}
    seen: set[Term] = set()
    stack = list(terms)
    while stack:
        for term in topological((stack.pop(),)):
            if term in seen:
                continue
            seen.add(term)
            operator = OPERATORS.get(node_of(term).op)
            if operator is not None and operator.equations and (term.op == "Out" or len(term.types) == 1):
                stack.append(unfold(term))
            if operator is not None and operator.index_operands and term.op != "Out":
                x, indices = term.inputs
                axis = term.attr("axis")
                assert x is not None and x.type is not None and x.type.shape is not None and indices is not None
                assert isinstance(axis, int)
                found[indices, x.type.shape[axis]] = None
    return found


def all_among(these: Iterable[Lookup], those: Sequence[Lookup], facts: Facts) -> bool:
    """Return True if each index of `these` is shown to be one of `those`, along an axis of the same size.

    Raises NoSemantics.
    """
    return all(any(_same(one, other) for other in those) or _is_among(one, those, facts) for one in these)


def _same(one: Lookup, other: Lookup) -> bool:
    return _in_any_order(one[0]) is _in_any_order(other[0]) and one[1] == other[1]


def _in_any_order(indices: Term) -> Term:
    """Return a tensor with the same elements, at other places."""
    while indices.op in _REARRANGEMENTS and indices.inputs[0] is not None:
        indices = indices.inputs[0]
    return indices


def _is_among(one: Lookup, those: Sequence[Lookup], facts: Facts) -> bool:
    indices, size = one
    sets = []
    algebra = Symbolic(element_types([indices, *(other for other, _ in those)]))
    meaning = Meaning(algebra)
    for other, own in those:
        if size == own or facts.entails(Guard("==", size - own)):
            assert other.type is not None and other.type.shape is not None
            place = output_place(other)
            names = tuple(str(i) for i in place if isinstance(i, Dim))
            guards = tuple(output_bounds(place, other.type.shape))
            whole = algebra.renamed_bound(Bound(names, guards, meaning.scalar(other, place)))
            sets.append(fewer(algebra, Given(facts), whole.binders, whole.guards, whole.value) or whole)
    if not sets:
        return False
    assert indices.type is not None and indices.type.shape is not None
    place = output_place(indices)
    inside = facts.extended(output_bounds(place, indices.type.shape))
    split = by_digits(algebra, len(place), inside.guards, (meaning.scalar(indices, place),))
    given = Given(facts.rebuilt(split.guards))
    facts.shared.allow(QUESTIONS)
    try:
        return Comparison(algebra).each_is_among(given, split.sums[0], sets)
    except Effort:
        return False
    finally:
        facts.shared.allow(None)
