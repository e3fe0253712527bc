"""Large patterns modulo the order of commutative operands.

A pattern with many commutative operators has too many orders to try each: one is found from the graph instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, Union

from superopt.ir.infer import OPERATORS
from superopt.ir.rule import Rule
from superopt.ir.term import Term, map_terms, topological

__all__ = ["is_large", "orders"]

_MOST = 8  # commutative operators: 256 orders
_Pair: TypeAlias = tuple[Union[Term, None], Union[Term, None]]
_Way: TypeAlias = tuple[frozenset[Term], dict[Term, Term]]


def is_large(rule: Rule) -> bool:
    """Whether its left side has too many orders to try each."""
    return sum(t.op in OPERATORS and OPERATORS[t.op].commutative for t in topological(rule.lhs)) > _MOST


def orders(rule: Rule, whole: Term, term: Term) -> Iterator[tuple[Rule, tuple[Term, ...]]]:
    """The rule with operands of its left side in those orders in which operators and sharing agree with the graph where
    `whole`, the root that all others are below, is `term`; and what all roots are there."""
    for swapped, bound in _swaps([(whole, term)], {}, frozenset()):

        def build(old: Term, inputs: tuple[Term | None, ...], swapped: frozenset[Term] = swapped) -> Term:
            return Term.of(old.op, inputs[::-1] if old in swapped else inputs, dict(old.attrs), old.types)

        yield Rule(map_terms(rule.lhs, build), rule.rhs, rule.signatures), tuple(bound[root] for root in rule.lhs)


def _swaps(todo: list[_Pair], bound: dict[Term, Term], swapped: frozenset[Term]) -> Iterator[_Way]:
    """The sets of pattern terms whose operands are to be exchanged, and what each pattern term is then."""
    while todo:
        pattern, term = todo.pop()
        if pattern is None or term is None:
            if pattern is not term:
                return
            continue
        if pattern in bound:
            if bound[pattern] is not term:
                return
            continue
        bound[pattern] = term
        if pattern.op == "Var":
            continue
        if pattern.op != term.op or len(pattern.inputs) != len(term.inputs):
            return
        pairs = list(zip(pattern.inputs, term.inputs, strict=True))
        if pattern.op in OPERATORS and OPERATORS[pattern.op].commutative and len(pairs) == 2:
            turned = list(zip(pattern.inputs[::-1], term.inputs, strict=True))
            yield from _swaps([*todo, *pairs], dict(bound), swapped)
            yield from _swaps([*todo, *turned], dict(bound), swapped | {pattern})
            return
        todo.extend(pairs)
    yield swapped, bound
