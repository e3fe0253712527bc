"""Variadic rules in the search: one rule applied to as many operands or operators as a graph has.

A rule with two alike outputs,

    (f(x, b), f(x, c)) = the parts of f(x, Concat(b, c)),

holds for n outputs as well (`superopt.rulebook.variadic`). If n sibling operators share x, one match rewrites all of
them: merging two of twenty time steps does not pay, merging all of them does. Rules with one output that contain a
Concat or Split are written for as many operands or parts as the graph's operator has. A rule for n operands is proven
like any other rule before it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from superopt.ir.pattern import Bindings, match
from superopt.ir.rule import Rule
from superopt.ir.term import Term, node_of, topological
from superopt.properties import joins
from superopt.rulebook.variadic import VariadicForm, schema_of, variadic_forms
from superopt.search.match.graph_index import index_key

__all__ = ["VariadicRule", "has_part_roots", "operand_counts", "variadic_rule"]

_SHIPPED_OPERANDS = 2  # rules in the rule files have at most this many alike operands
_MAX_PARTS = 8  # parts of a Split or Concat: the time of a proof grows with a power of their number


def operand_counts(term: Term) -> Iterator[int]:
    """Yield the numbers of operands (Concat) and parts (Split) above two, at `term` and just below it."""
    for node in dict.fromkeys(map(node_of, (term, *(i for i in node_of(term).inputs if i is not None)))):
        sizes = node.attr("split") if node.op == "Split" else node.inputs if joins(node.op) else ()
        assert isinstance(sizes, tuple)
        if _SHIPPED_OPERANDS < len(sizes) <= _MAX_PARTS:
            yield len(sizes)


def variadic_rule(rule: Rule) -> VariadicRule | None:
    """Return the rule as a variadic rule, or None if it does not have two alike operands."""
    if len(rule.lhs) == 2 and not (_same_operators(*rule.lhs) and _same_operators(*rule.rhs)):
        return None  # a quick test; no form would be found
    form = next(variadic_forms(schema_of(rule)), None) if len(rule.lhs) <= 2 else None
    if form is None or len(rule.lhs) != (2 if form.repeats_outputs else 1):
        return None
    return VariadicRule(rule, form)


def _same_operators(one: Term | None, other: Term | None) -> bool:
    if one is None or other is None:
        return one is other
    alike = one.op == other.op and len(one.inputs) == len(other.inputs)
    return alike and all(map(_same_operators, one.inputs, other.inputs))


def has_part_roots(rule: Rule) -> bool:
    """Return True if the left side has single outputs (`Out`) of operators with several outputs."""
    return any(term.op == "Out" for term in topological(rule.lhs))


class VariadicRule:
    """A rule for two alike operands, and the same rule for more.

    `merges_siblings`: the rule's outputs are operators side by side in the graph, each with its own operands and with
    shared operands. Operators of the graph that agree in the shared operands are siblings, and the rule merges them.
    """

    def __init__(self, rule: Rule, form: VariadicForm) -> None:
        self.rule, self._form = rule, form
        self.merges_siblings = form.repeats_outputs and bool(form.successor) and not has_part_roots(rule)
        self._rules: dict[int, tuple[Rule, ...]] = {2: (rule,)}

    @property
    def root_key(self) -> str:
        """Index key of the first root."""
        return index_key(self.rule.lhs[0])

    @cached_property
    def _own(self) -> frozenset[str]:
        """Names of the variables that each sibling has for itself."""
        return frozenset(self._form.successor)

    def for_operands(self, n: int) -> tuple[Rule, ...]:
        """Return the rule for `n` operands; if the rule is about a single operand, the rules about each of `n`."""
        if n not in self._rules:
            form = self._form
            parts = form.parts(n) if form.successor or form.repeats_outputs or not form.single_operands else ()
            self._rules[n] = tuple(form.schema(n, part).rule for part in parts)
        return self._rules[n]

    def shared_operands(self, term: Term) -> tuple[object, ...] | None:
        """Return the operands and attributes that all siblings of `term` share; None if the rule does not match it."""
        bindings = match(self.rule.lhs[:1], (term,))
        return None if bindings is None else self._shared(bindings)

    def _shared(self, bindings: Bindings) -> tuple[object, ...]:
        terms = sorted((name, term) for name, term in bindings.terms.items() if name not in self._own)
        attrs = sorted((name, str(value)) for name, value in bindings.attrs.items() if name not in self._own)
        return (*terms, *attrs)
