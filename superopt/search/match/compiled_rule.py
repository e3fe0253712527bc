"""A rule compiled for matching: one direction, one order of commutative operands, and the data of a quick test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from superopt.ir.infer import OPERATORS
from superopt.ir.rule import Rule
from superopt.ir.term import Term, node_of, topological
from superopt.properties import lists_numbers
from superopt.search.match.overflow import adds_exponentials
from superopt.search.match.rule_identity import renamed

__all__ = ["CompiledRule", "UpwardStep", "compile_rule", "introduced", "operand_operators", "pattern_depth"]

# Standard operators that are equal to compositions of others, as Sum is to nested Adds.
_ALIASES = frozenset({"Sum"})


@dataclass(frozen=True)
class UpwardStep:
    """A step from a term to one of its users: the user's operator, the term's input position, the output if `Out`."""

    op: str
    position: int
    output: int | None


_Path: TypeAlias = tuple[Term, tuple[UpwardStep, ...]]


@dataclass(frozen=True, eq=False)
class CompiledRule:
    """A rule ready for matching: left to right, with the operands of its left side in one order.

    `rule_id` is the id of the rule in the rule files, and `listed` that rule in this direction, with the operands in
    the order of the file: its certificate speaks for all orders. `paths[k]` leads from a variable that earlier roots
    bind up to root k; it is None if root k shares no variable with earlier roots. If `is_symmetric`, exchanging the two
    roots gives the same rule, so only one order of the roots is tried. `arity` is the number of inputs of the first
    root. `operand_ops` has the positions and operators of the inputs of the first root that are not variables.

    `introduces_kernel`: the right side has an operator of the runtime's own (FusedGemm), or an alias, that the left
    side lacks. `selects_kernel`: the rule introduces one, is about one, or keeps the operators of the roots.
    """

    rule: Rule
    rule_id: str
    listed: Rule
    paths: tuple[_Path | None, ...]
    is_symmetric: bool
    operand_ops: tuple[tuple[int, str], ...]
    arity: int
    introduces_kernel: bool
    selects_kernel: bool
    splits_attributes: bool = False

    @cached_property
    def operators(self) -> tuple[tuple[str, ...], ...]:
        """The operators of both sides. Rules about different parts of one Split have the same operators."""
        return tuple(tuple(t.op for t in topological(side)) for side in (self.rule.lhs, self.rule.rhs))

    @cached_property
    def is_denormal_rule(self) -> bool:
        """True if the rule's benefit is that it avoids denormal numbers, so that only a measurement shows the gain."""
        return adds_exponentials(self.rule)

    @cached_property
    def is_algorithm(self) -> bool:
        """True if the right side brings numbers of its own (Winograd convolution): only measurements show the gain."""
        return any(lists_numbers(term.op) for term in introduced(self.rule)) and not self.is_denormal_rule

    def may_match(self, term: Term) -> bool:
        """Quick test: return False if the operators of the operands show that the first root cannot be `term`."""
        inputs = node_of(term).inputs
        if len(inputs) != self.arity:
            return False
        for position, op in self.operand_ops:
            used = inputs[position]
            if used is None or used.op != op:
                return False
        return True


def compile_rule(
    rule: Rule, rule_id: str, *, listed: Rule | None = None, splits_attributes: bool = False
) -> CompiledRule:
    """Compile a rule, left to right. `listed` is it in the order of the rule files (None: this order)."""
    paths: list[_Path | None] = [None]
    for k in range(1, len(rule.lhs)):
        bound = {t for t in topological(rule.lhs[:k]) if t.op == "Var"}
        paths.append(_path_up(rule.lhs[k], bound))
    reversed_roots = renamed(tuple(reversed(rule.lhs)), ())
    is_symmetric = len(rule.lhs) == 2 and reversed_roots == renamed(rule.lhs, ())
    inputs = node_of(rule.lhs[0]).inputs
    operand_ops = tuple((k, i.op) for k, i in enumerate(inputs) if i is not None and i.op != "Var")
    introduces = not _kernels(rule.rhs) <= _kernels(rule.lhs)
    same_roots = all(old.op == new.op for old, new in zip(rule.lhs, rule.rhs, strict=True))
    selects = introduces or same_roots or bool(_kernels(rule.lhs))
    return CompiledRule(
        rule,
        rule_id,
        rule if listed is None else listed,
        tuple(paths),
        is_symmetric,
        operand_ops,
        len(inputs),
        introduces,
        selects,
        splits_attributes,
    )


def _path_up(pattern: Term, bound: set[Term]) -> _Path | None:
    """Return the shortest path from a variable in `bound` up to `pattern`."""
    level: list[_Path] = [(pattern, ())]
    while level:
        deeper: list[_Path] = []
        for term, path in level:
            if term in bound:
                return term, tuple(reversed(path))
            output = term.attr("index") if term.op == "Out" else None
            assert output is None or isinstance(output, int)
            for position, used in enumerate(term.inputs):
                if used is not None:
                    deeper.append((used, (*path, UpwardStep(term.op, position, output))))
        level = deeper
    return None


def operand_operators(root: Term) -> tuple[str, ...]:
    """Return the operators of the operands of a pattern's root (variables excepted), sorted, with repetitions."""
    return tuple(sorted(i.op for i in node_of(root).inputs if i is not None and i.op != "Var"))


def pattern_depth(side: Term) -> int:
    """Return the number of operators on the longest path below a pattern's root."""
    depths: dict[Term, int] = {}
    for term in topological((side,)):
        depths[term] = max((depths[i] + 1 for i in term.inputs if i is not None), default=0)
    return depths[side]


def _operators_in(terms: tuple[Term, ...]) -> set[str]:
    """Return the names of the operators in and below `terms`."""
    return {t.op for t in topological(terms) if t.op in OPERATORS}


def introduced(rule: Rule) -> list[Term]:
    """Return the operators of the right side whose type is not on the left side."""
    before = _operators_in(rule.lhs)
    return [t for t in topological(rule.rhs) if t.op in OPERATORS and t.op not in before]


def _kernels(terms: tuple[Term, ...]) -> set[str]:
    """Return the operators of `terms` whose introduction selects a kernel, so that it is done after other rewrites."""
    ops = {t.op for t in topological(terms) if t.op in OPERATORS}
    return {op for op in ops if OPERATORS[op].domain or op in _ALIASES}
