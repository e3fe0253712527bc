"""Parts that both sides of a rule share: a comparison of bounds may stop at them.

Both sides are the same function of a shared part if the equation still holds with a variable in its place. Then an
error of the shared part reaches both results alike, to first order, and the bounds need not look into it. Of that error
only the last rounding is counted, on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from superopt.ir.infer import remake, replace
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, map_terms, topological, var
from verify.stability.algorithms import as_computed, is_computed_by_others
from verify.stability.recurrent_step import recurrent_step

__all__ = ["broadcast_parts", "congruent", "functions", "is_function", "shared_apart", "unfolded"]

Terms = tuple[Term, ...]


def unfolded(terms: Terms) -> Terms:
    """Return the terms with composite operators replaced by those that they are computed by."""

    def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        term = remake(old, inputs)
        inner = term.inputs[0] if term.op == "Squeeze" else None
        if inner is not None and inner.op == "Unsqueeze" and inner.attrs == term.attrs and inner.inputs[0] is not None:
            return inner.inputs[0]
        return recurrent_step(term) or expanded(term)

    def expanded(term: Term) -> Term:
        if not is_computed_by_others(term):
            return term
        simpler = as_computed(term)
        return simpler if simpler.op == "Var" else map_terms((simpler,), build)[0]

    return map_terms(terms, build)


def shared_apart(left: Term, right: Term) -> Iterator[tuple[Term, Term, dict[str, Term]]]:
    """Yield both sides with variables in place of the largest parts that they share, and the parts by name.

    A part may occur on one side only inside of others. The second attempt leaves such parts as they are.
    """
    common = {term for term in set(topological((left,))) & set(topological((right,))) if _is_part(term)}
    sides = [_largest(side, common) for side in (left, right)]
    yield from _apart(left, right, sides[0] | sides[1])
    if sides[0] != sides[1]:
        while sides[0] != sides[1]:
            common -= sides[0] ^ sides[1]
            sides = [_largest(side, common) for side in (left, right)]
        yield from _apart(left, right, sides[0])


def _apart(left: Term, right: Term, parts: set[Term]) -> Iterator[tuple[Term, Term, dict[str, Term]]]:
    if parts:
        inside = (term for term in topological((left, right)) if term in parts)
        new = {part: var(f"part!{k}", part.type) for k, part in enumerate(inside)}
        one, other = replace((left, right), new)
        yield one, other, {str(name.attr("name")): part for part, name in new.items()}


def _largest(side: Term, parts: set[Term]) -> set[Term]:
    """Return the parts that occur in a term outside of other parts."""
    found, stack = set[Term](), [side]
    while stack:
        term = stack.pop()
        if term in parts:
            found.add(term)
        else:
            stack += [i for i in term.inputs if i is not None]
    return found


def broadcast_parts(side: Term) -> list[Term]:
    """Return the computed parts that an operator repeats along an axis, the largest first."""
    found: dict[Term, None] = {}
    for term in topological((side,)):
        for part in term.inputs if term.op != "Concat" else ():  # Concat joins what has size 1
            if part is not None and part.type is not None and term.type is not None and _is_part(part):
                own, whole = part.type.shape or (), term.type.shape or ()
                if len(own) == len(whole) and any(m == 1 != n for m, n in zip(own, whole, strict=True)):
                    found[part] = None
    return list(reversed(found))


def functions(side: Term) -> list[Term]:
    """Return the results of functions of one operand, element by element."""
    return [term for term in topological((side,)) if is_function(term)]


def is_function(term: Term) -> bool:
    """Return True for the result of a function of one operand, element by element."""
    return len(term.inputs) == 1 and term.op in OPERATORS and OPERATORS[term.op].elementwise


def _is_part(term: Term) -> bool:
    """Return True for a single output that depends on an input."""
    if term.type is None or term.op == "Var" or (term.op != "Out" and len(term.types) != 1):
        return False
    return any(t.op == "Var" for t in topological((term,)))


def congruent(left: Term, right: Term, same_type: Callable[[Term, Term], bool]) -> list[list[tuple[Term, Term]]]:
    """Return the ways to pair the operands of two terms of one operator with equal attributes; none for others."""
    if left.op != right.op or left.op in ("Var", "Out") or left.attrs != right.attrs or not same_type(left, right):
        return []
    orders = [right.inputs]
    if OPERATORS[left.op].commutative and len(right.inputs) == 2:
        orders.append(right.inputs[::-1])
    found = []
    for order in orders:
        pairs = [(a, b) for a, b in zip(left.inputs, order, strict=False) if a is not None and b is not None]
        if len(order) == len(left.inputs) == len(pairs) and all(same_type(a, b) for a, b in pairs):
            found.append(pairs)
    return found
