"""Terms of one composite operator, compared operand by operand: f(a, c) = f(b, c) if a = b everywhere.

A comparison of values writes the operator's equation out. There an operand occurs many times, under sums and squares,
and a difference of two operands, such as the order of a sum, grows beyond what normal forms decide.
"""

from __future__ import annotations

from collections.abc import Iterator

from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, node_of, output_index
from superopt.ops.equation import unfold

__all__ = ["differing_operands"]


def differing_operands(left: Term, right: Term) -> list[tuple[Term, Term]]:
    """Return the pairs of different operands of two terms that are, or unfold to, one composite operator.

    The terms are equal if each pair is, and then they are defined at the same values. There are no pairs if the terms
    are of different operators or attributes, or if a pair differs in type.
    """
    for one in _composites(left):
        for other in _composites(right):
            if _operator(one) == _operator(other):
                found = []
                for a, b in zip(node_of(one).inputs, node_of(other).inputs, strict=True):
                    if a is b:
                        continue
                    if a is None or b is None or a.types != b.types:
                        return []
                    found.append((a, b))
                return found
    return []


def _composites(term: Term) -> Iterator[Term]:
    """Yield a term, and what it unfolds to, as long as its operator is composite. Raises NoSemantics."""
    while node_of(term).op in OPERATORS and OPERATORS[node_of(term).op].equations:
        yield term
        term = unfold(term)


def _operator(term: Term) -> tuple[object, ...]:
    """Return what two terms share that apply one operator: its name and attributes, the operands' count, the output."""
    node = node_of(term)
    return node.op, node.attrs, len(node.inputs), output_index(term)
