"""Orders of commutative operands in patterns and graphs. Nothing else reorders operands for matching.

`superopt.ir.pattern.match` compares operands in the order in which they stand. Commutativity is added around it:

- `operand_orders` gives a rule with the operands of its left side in every order. Each order is matched separately.
- `guided_orders` does the same for patterns with many commutative operators: it takes only the orders that agree with
  the graph, because 9 operators have 512 orders and an unrolled LSTM cell has more.
- `OperandOrder` and `ordered_operands` bring graphs into one order, so that graphs which differ only in the order of
  operands compare as equal.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias, Union

from superopt.ir.infer import OPERATORS
from superopt.ir.rule import Rule
from superopt.ir.term import Term, map_terms, topological

__all__ = [
    "OperandOrder",
    "guided_orders",
    "has_too_many_orders",
    "is_commutative",
    "operand_orders",
    "ordered_operands",
]

_MAX_COMMUTATIVE_OPERATORS = 8  # 256 orders
_Pair: TypeAlias = tuple[Union[Term, None], Union[Term, None]]
# Pattern terms whose operands are swapped, and the graph's term for each pattern term.
_Alignment: TypeAlias = tuple[frozenset[Term], dict[Term, Term]]


def is_commutative(term: Term) -> bool:
    """Return True if the first two operands of `term` may be swapped."""
    return term.op in OPERATORS and OPERATORS[term.op].commutative


def operand_orders(rule: Rule) -> Iterator[Rule]:
    """Yield the rule with the operands of commutative operators of its left side in every order, itself first."""
    swappable = [
        t for t in topological(rule.lhs) if is_commutative(t) and len(t.inputs) == 2 and t.inputs[0] is not t.inputs[1]
    ]
    seen: set[tuple[Term, ...]] = set()
    for choice in itertools.product((False, True), repeat=len(swappable)):
        swapped = _swap(rule, {term for term, swap in zip(swappable, choice, strict=True) if swap})
        if swapped.lhs not in seen:
            seen.add(swapped.lhs)
            yield swapped


def has_too_many_orders(rule: Rule) -> bool:
    """Return True if the left side has too many operand orders to enumerate; then use `guided_orders`."""
    return sum(map(is_commutative, topological(rule.lhs))) > _MAX_COMMUTATIVE_OPERATORS


def guided_orders(rule: Rule, top: Term, term: Term) -> Iterator[tuple[Rule, tuple[Term, ...]]]:
    """Yield the rule in the operand orders in which operators and sharing agree with the graph at `term`.

    `top`, the root of the left side that all other roots are operands of, is matched with `term`. Each rule is paired
    with the graph's terms for all roots.
    """
    for swapped, aligned in _alignments([(top, term)], {}, frozenset()):
        yield _swap(rule, swapped), tuple(aligned[root] for root in rule.lhs)


def _swap(rule: Rule, swapped: Collection[Term]) -> Rule:
    """Return the rule with the operands of those terms of its left side exchanged."""

    def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        return old.over(inputs[::-1] if old in swapped else inputs)

    return Rule(map_terms(rule.lhs, build), rule.rhs, rule.signatures)


def _alignments(todo: list[_Pair], aligned: dict[Term, Term], swapped: frozenset[Term]) -> Iterator[_Alignment]:
    """Yield the ways to align the pattern terms in `todo` with the graph, with swaps of commutative operands."""
    while todo:
        pattern, term = todo.pop()
        if pattern is None or term is None:
            if pattern is not term:
                return
            continue
        if pattern in aligned:
            if aligned[pattern] is not term:
                return
            continue
        aligned[pattern] = term
        if pattern.op == "Var":
            continue
        if pattern.op != term.op or len(pattern.inputs) != len(term.inputs):
            return
        pairs = list(zip(pattern.inputs, term.inputs, strict=True))
        if is_commutative(pattern) and len(pairs) == 2:
            crossed = list(zip(pattern.inputs[::-1], term.inputs, strict=True))
            yield from _alignments([*todo, *pairs], dict(aligned), swapped)
            yield from _alignments([*todo, *crossed], dict(aligned), swapped | {pattern})
            return
        todo.extend(pairs)
    yield swapped, aligned


def ordered_operands(term: Term, inputs: tuple[Term | None, ...]) -> Term:
    """Return `term` over `inputs`; the two operands of a commutative operator are ordered by their digests.

    The order is the same in every process, so the generator may write it to files.
    """
    if len(inputs) == 2 and is_commutative(term):
        first, second = inputs
        if first is not None and second is not None and second < first:
            inputs = (second, first)
    return term if inputs == term.inputs else term.over(inputs)


class OperandOrder:
    """Maps graphs to representatives that are equal if the graphs differ only in the order of commutative operands.

    The search keeps its graphs unchanged, because the kernel replays exact terms, and only compares representatives.
    Representatives are remembered. Operands are ordered by `id`, which needs no digest of each new term. Therefore
    representatives are only valid in this process and during the life of this object.
    """

    def __init__(self) -> None:
        self._representative: dict[Term, Term] = {}

    def __call__(self, terms: Sequence[Term]) -> tuple[Term, ...]:
        """Return the representative of each of `terms`."""
        known = self._representative
        stack = [term for term in reversed(terms) if term not in known]
        while stack:
            term = stack[-1]
            if term in known:
                stack.pop()
                continue
            missing = [i for i in term.inputs if i is not None and i not in known]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            inputs = tuple(None if i is None else known[i] for i in term.inputs)
            if is_commutative(term) and None not in inputs:
                inputs = tuple(sorted(inputs, key=id))
            known[term] = term if inputs == term.inputs else term.over(inputs)
        return tuple(known[term] for term in terms)
