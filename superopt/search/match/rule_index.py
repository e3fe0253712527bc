"""The rules of a search, indexed by the operators at and below the first root of their left sides.

Each rule is used in both directions if both are defined, and with the operands of commutative operators in every order.
Variadic rules are written for as many operands as the graph has. Rules are compiled when a graph has their operators,
because there are many rules and most graphs need few of them. Compiled rules are kept for later indexes of the process:
a run searches several times with the same rules, and compiling them took a fifth of short searches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

from superopt.ir.operator import OPERATORS
from superopt.ir.rule import Rule
from superopt.ir.term import Term, node_of, topological
from superopt.rulebook.commutative import has_too_many_orders, operand_orders
from superopt.search.match.compiled_rule import (
    CompiledRule,
    compile_rule,
    introduced,
    operand_operators,
    pattern_depth,
)
from superopt.search.match.graph_index import index_key
from superopt.search.match.overflow import may_overflow
from superopt.search.match.rule_identity import Sides, renamed
from superopt.search.match.split_rule import can_apply, split_attributes, with_present_value
from superopt.search.match.variadic_rule import VariadicRule, has_part_roots, operand_counts, variadic_rule

__all__ = ["RuleIndex"]

# Operators just below a root, sorted, with repetitions.
_OperandOps: TypeAlias = tuple[str, ...]
# The number of a rule in the rule set, and the rule in one direction.
_Numbered: TypeAlias = "tuple[int, _DirectedRule]"
# A variadic rule after the number of the rule that it comes from, and before the id of that rule.
_NumberedVariadic: TypeAlias = tuple[int, VariadicRule, str]

# Kept for later indexes, those that were used last: the shipped rules have 9,700 directions.
_MAX_DIRECTED = 1 << 15
_MAX_GROUPS = 1 << 12


@dataclass(frozen=True, eq=False)
class _DirectedRule:
    """A rule in one direction, and the id of the listed rule. It is equal to itself only (see `_directed`)."""

    rule: Rule
    rule_id: str

    @cached_property
    def can_be_matched(self) -> bool:
        """True if a search may apply the rule left to right, in an order of operands that is compiled."""
        rule = self.rule
        if not can_apply(rule) or _keeps_root(rule) or may_overflow(rule):
            return False
        return not has_too_many_orders(rule)  # `recurrent_layers` matches these

    @cached_property
    def introduced(self) -> list[Term]:
        """The operators that the rule introduces."""
        return introduced(self.rule)

    @cached_property
    def operand_operators(self) -> _OperandOps:
        """The operators just below the first root."""
        return operand_operators(self.rule.lhs[0])

    @cached_property
    def depth(self) -> int:
        """The depth of the first root's pattern."""
        return pattern_depth(self.rule.lhs[0])


@dataclass(frozen=True, eq=False)
class _ListedRule:
    """A rule as a key: rules with the same sides are equal, but may have other signatures."""

    rule: Rule

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ListedRule) and self.rule is other.rule

    def __hash__(self) -> int:
        return id(self.rule)


@lru_cache(maxsize=_MAX_DIRECTED)
def _directed(listed: _ListedRule, reverse: bool) -> _DirectedRule:
    rule = listed.rule
    return _DirectedRule(rule.reversed() if reverse else rule, rule.id)


class _CompiledGroup:
    """The compiled rules of one group: their first roots have one index key and the same operators below."""

    def __init__(self, rules: Sequence[_Numbered]) -> None:
        self.compiled: list[tuple[int, CompiledRule]] = []  # without rules that merge siblings
        self.multi_output: list[_NumberedVariadic] = []  # variadic rules with several roots that do not merge siblings
        self.sibling: list[_NumberedVariadic] = []
        seen: set[Sides] = set()
        for number, one in rules:
            directed, rule_id = one.rule, one.rule_id
            for rule in _new_orders(directed, seen):
                variadic = variadic_rule(rule) if len(rule.lhs) > 1 else None
                if variadic is not None and variadic.merges_siblings:
                    seen.update(renamed(wider.lhs, wider.rhs) for wider in variadic.for_operands(3))
                    self.sibling.append((number, variadic, rule_id))
                    continue
                if split_attributes(rule):
                    for wider in with_present_value(rule):
                        self.compiled.append((number, compile_rule(wider, rule_id, splits_attributes=True)))
                    continue
                self.compiled.append((number, compile_rule(rule, rule_id, listed=directed)))
                if variadic is not None:
                    self.multi_output.append((number, variadic, rule_id))


_compiled_group = lru_cache(maxsize=_MAX_GROUPS)(_CompiledGroup)


def _new_orders(directed: Rule, seen: set[Sides]) -> Iterator[Rule]:
    """Yield the rule in the operand orders that are not `seen` yet, and add them to `seen`."""
    for rule in operand_orders(directed):
        sides = renamed(rule.lhs, rule.rhs)
        if rule.lhs != rule.rhs and sides not in seen:
            seen.add(sides)
            yield rule


class _RulesOfKey:
    """The rules whose first root has one index key, in groups that are compiled on demand."""

    def __init__(self, rules: Iterable[_Numbered]) -> None:
        self._source: dict[_OperandOps, list[_Numbered]] = {}
        self._groups: dict[_OperandOps, _CompiledGroup] = {}
        self._variadic: dict[CompiledRule, VariadicRule | None] = {}  # of rules with one root
        for number, directed in rules:
            self._source.setdefault(directed.operand_operators, []).append((number, directed))

    def _group(self, ops: _OperandOps) -> _CompiledGroup:
        if ops not in self._groups:
            self._groups[ops] = _compiled_group(tuple(self._source[ops]))
        return self._groups[ops]

    def compiled(self, may_match: Callable[[_OperandOps], bool]) -> list[CompiledRule]:
        """Return the rules of the groups for which `may_match` holds (no rules that merge siblings), in order."""
        found = [item for ops in self._source if may_match(ops) for item in self._group(ops).compiled]
        return [compiled for _, compiled in sorted(found, key=lambda item: item[0])]

    def variadic(self, available: AbstractSet[str]) -> Iterator[tuple[VariadicRule, str]]:
        """Yield the variadic rules (none that merge siblings) whose operators just below the root are `available`."""
        for compiled in self.compiled(lambda ops: available >= set(ops)):
            if len(compiled.rule.lhs) == 1:
                if compiled not in self._variadic:
                    self._variadic[compiled] = variadic_rule(compiled.rule)
                variadic = self._variadic[compiled]
                if variadic is not None:
                    yield variadic, compiled.rule_id
        several = [item for ops in self._source if available >= set(ops) for item in self._group(ops).multi_output]
        yield from ((variadic, rule_id) for _, variadic, rule_id in sorted(several, key=lambda item: item[0]))

    @cached_property
    def sibling(self) -> list[_NumberedVariadic]:
        """The rules that merge siblings, in the order of the rules."""
        groups = (
            ops
            for ops, rules in self._source.items()
            if any(len(one.rule.lhs) > 1 and not has_part_roots(one.rule) for _, one in rules)  # parts are no siblings
        )
        return sorted((item for ops in groups for item in self._group(ops).sibling), key=lambda item: item[0])


class RuleIndex:
    """All compiled rules of a rule set, by the operators at and below their first root."""

    def __init__(self, rules: Iterable[Rule], available: Callable[[Term], bool] = lambda operator: True) -> None:
        """`available(operator)` tells if a rule may introduce this operator of its right side into the model."""
        self._available = available
        self._unavailable: dict[Term, bool] = {}
        # By index key of the left side: the number of a rule, the rule, and True if it is used right to left.
        self._listed: dict[str, list[tuple[int, Rule, bool]]] = {}
        self._applicable: dict[str, list[_Numbered]] = {}
        self._by_key: dict[str, _RulesOfKey] = {}
        self._candidates: dict[tuple[object, ...], list[CompiledRule]] = {}
        self._depths: dict[str, int] = {}
        self._wide: dict[tuple[VariadicRule, int], list[CompiledRule]] = {}
        self._sibling: dict[tuple[VariadicRule, int], CompiledRule | None] = {}
        ordered = sorted(rules, key=lambda rule: len(rule.lhs))  # rules with two outputs before those with three
        for number, rule in enumerate(ordered):
            for reverse, side in enumerate((rule.lhs, rule.rhs)):
                self._listed.setdefault(index_key(side[0]), []).append((number, rule, bool(reverse)))

    def _applicable_rules(self, key: str) -> list[_Numbered]:
        """Return the rules and reversed rules with that index key that can be applied left to right."""
        if key not in self._applicable:
            self._applicable[key] = []
            for number, rule, reverse in self._listed.get(key, ()):
                directed = _directed(_ListedRule(rule), reverse)
                if directed.can_be_matched and all(map(self._available, directed.introduced)):
                    self._applicable[key].append((number, directed))
        return self._applicable[key]

    def lacks(self, terms: Iterable[Term]) -> bool:
        """Return True if one of `terms` may not be introduced: operators of a rule have no types, and these have."""
        for term in map(node_of, terms):
            if term.op in OPERATORS:
                if term not in self._unavailable:
                    self._unavailable[term] = not self._available(term)
                if self._unavailable[term]:
                    return True
        return False

    def clear(self) -> None:
        """Free the memory that terms of graphs take."""
        self._unavailable.clear()

    def _rules_of(self, key: str) -> _RulesOfKey:
        if key not in self._by_key:
            self._by_key[key] = _RulesOfKey(self._applicable_rules(key))
        return self._by_key[key]

    def candidates(self, term: Term) -> Sequence[CompiledRule]:
        """Return the rules whose first root may be `term`, by its operator and its operands' operators.

        Rules that merge siblings are not among them (see `sibling_rules`).
        """
        inputs = node_of(term).inputs
        counts = tuple(dict.fromkeys(operand_counts(term)))
        root = index_key(term)
        key = (root, counts, *(None if i is None else i.op for i in inputs))
        if key not in self._candidates:
            present = Counter(i.op for i in inputs if i is not None)
            found = self._rules_of(root).compiled(lambda ops: Counter(ops) <= present)
            found += (compiled for n in counts for compiled in self._wide_rules(n, term))
            self._candidates[key] = [compiled for compiled in found if compiled.may_match(term)]
        return self._candidates[key]

    def depth(self, key: str) -> int:
        """Return the largest depth of the left sides with one root whose index key is `key`."""
        if key not in self._depths:
            depths = (one.depth for _, one in self._applicable_rules(key) if len(one.rule.lhs) == 1)
            self._depths[key] = max(depths, default=0)
        return self._depths[key]

    def _wide_rules(self, n: int, term: Term) -> Iterator[CompiledRule]:
        """Yield the variadic rules, for `n` operands or parts, whose first root may be `term`."""
        below = {i.op for i in node_of(term).inputs if i is not None}
        for variadic, rule_id in self._rules_of(index_key(term)).variadic(below):
            if (variadic, n) not in self._wide:
                self._wide[variadic, n] = [compile_rule(rule, rule_id) for rule in variadic.for_operands(n)]
            yield from self._wide[variadic, n]

    def sibling_rules(self, keys: Collection[str]) -> list[tuple[str, list[tuple[VariadicRule, str]]]]:
        """Return, for each of `keys` that has any, the rules that merge siblings, with their ids."""
        found = [(rules, key) for key in self._listed if key in keys and (rules := self._rules_of(key).sibling)]
        found.sort(key=lambda item: item[0][0][0])  # by the number of the first rule
        return [(key, [(variadic, rule_id) for _, variadic, rule_id in rules]) for rules, key in found]

    def sibling_rule(self, variadic: VariadicRule, rule_id: str, n: int) -> CompiledRule | None:
        """Return the rule that merges `n` siblings."""
        if (variadic, n) not in self._sibling:
            rules = variadic.for_operands(n)
            self._sibling[variadic, n] = compile_rule(rules[0], rule_id) if rules else None
        return self._sibling[variadic, n]

    def __contains__(self, op: object) -> bool:
        """Return True if the first root of some rule can be the operator, or an output of it."""
        return any(self._applicable_rules(key) for key in (f"{op}", f"Out:{op}"))


def _keeps_root(rule: Rule) -> bool:
    """Return True for rules such as f(x) = g(f(x)), which left to right only add operators.

    A root that is the same on both sides is no such root: it says what has to be there, as f(x) does in
    (f(x), h(x)) = (f(x), g(f(x))).
    """
    replaced = {old for old, new in zip(rule.lhs, rule.rhs, strict=True) if old != new}
    return not replaced.isdisjoint(topological(rule.rhs))
