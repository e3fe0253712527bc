"""Rolls up unrolled recurrent layers: a cell becomes the operator for one step, a chain of steps becomes one operator.

The rules for cells and chains have large left sides. They are applied to the whole model and not in regions, because
regions are smaller than a layer. A chain is merged in one rewrite, because merging two of a hundred steps does not pay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from superopt.ir.infer import IllTyped, replace
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.rule import Rule
from superopt.ir.term import CLOSED_FORM, Term, node_of, topological
from superopt.ir.trace import Application, Rewrite, Step, Trace
from superopt.ops.recurrent import RECURRENT
from superopt.properties import joins, moves
from superopt.rulebook.chain import ChainRule, chain_rule
from superopt.rulebook.commutative import guided_orders
from superopt.rulebook.variadic import schema_of, variadic_forms
from superopt.search.match.compiled_rule import introduced
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.signature_check import Check

__all__ = ["RecurrentLayers", "find_cells", "find_chains"]

_MAX_CONCAT_OPERANDS = 256  # the prover cannot prove wider rules about the parts of one value
_MAX_SIDES = 1 << 14  # of rules, kept for later searches; the shipped rules have 4,900 right sides


class _Found(NamedTuple):
    """A rule as it matches, the terms that are its roots, and the rule as it is listed (see `CompiledRule`).

    `rule_id` is the id, in the rule files, of the rule that it is a form of.
    """

    rule: Rule
    roots: tuple[Term, ...]
    listed: Rule
    rule_id: str


class RecurrentLayers:
    """Matches the rules that turn unrolled cells and chains of steps into recurrent operators.

    `rule_ids` has the id, in the rule files, of the rule of each step in its traces.
    """

    def __init__(self, rules: Iterable[Rule], available: Callable[[Term], bool] = lambda operator: True) -> None:
        """`available(operator)` tells if a rule may introduce this operator."""
        self._rules = list(rules)
        self.rule_ids: dict[Rule, str] = {}
        with_layers = (rule for rule in self._rules if _has_layer(rule.rhs))
        made = ((rule, [term for term in introduced(rule) if term.op in RECURRENT]) for rule in with_layers)
        self._cells = sorted((r for r, new in made if new and all(map(available, new))), key=lambda r: -len(r.lhs))
        self._keys = {*(f"Out:{op}" for op in RECURRENT), *(root.op for r in self._cells for root in r.lhs)}

    @cached_property
    def _chain_rules(self) -> list[ChainRule]:
        return [chain for rule in self._rules if (chain := chain_rule(rule)) is not None]

    @cached_property
    def _movement_rules(self) -> list[Rule]:
        return [rule for rule in self._rules if _removes_movement(rule)]

    def next_trace(self, outputs: Sequence[Term], check: Check) -> Trace | None:
        """Return a trace of the next rewrites of the graph, or None if there are none left.

        The trace rewrites all cells; if there is no cell, all needless data movement; otherwise all chains of steps.
        """
        index = GraphIndex(outputs)
        if not self._cells or self._keys.isdisjoint(index.by_key):
            return None
        kinds = (
            find_cells(index, self._cells),
            _find_needless_movement(index, self._movement_rules),
            find_chains(index, self._chain_rules),
        )
        return next((trace for found in kinds if (trace := _trace(found, check, self.rule_ids)).applications), None)


def find_cells(index: GraphIndex, rules: Sequence[Rule]) -> Iterator[_Found]:
    """Yield the cells of a graph: the rule in the operand order that matches, and its roots."""
    taken: set[Term] = set()
    for rule in rules:
        top = max(rule.lhs, key=lambda root: len(list(topological((root,)))))
        if not set(rule.lhs) <= set(topological((top,))):
            continue
        matches: dict[tuple[Term, ...], list[tuple[Rule, Bindings]]] = {}
        for term in index.by_key.get(top.op, []):
            for ordered, roots in guided_orders(rule, top, term):
                bindings = match(ordered.lhs, roots)
                if bindings is not None and taken.isdisjoint(roots):
                    matches.setdefault(roots, []).append((ordered, bindings))
        states = [name for root in rule.rhs if (name := _state_variable(rule, root))]
        outputs_of_cells = {root for roots in matches for root in roots}
        for roots, orders in matches.items():
            scores = [
                _state_likeness(tuple(bindings.terms[name] for name in states), matches, outputs_of_cells)
                for _, bindings in orders
            ]
            best = [order for order, score in zip(orders, scores, strict=True) if score == max(scores)]
            typed = (ordered for ordered, bindings in best[:-1] if _is_typed(ordered, bindings))
            yield _Found(next(typed, best[-1][0]), roots, rule, rule.id)
            taken.update(roots)


def _state_variable(rule: Rule, root: Term) -> str:
    """Return the name of the variable for the previous value of the state that `root` computes; "" if there is none."""
    out = next((t for t in topological((root,)) if t.op == "Out" and node_of(t).op in RECURRENT), None)
    node = None if out is None else out.inputs[0]
    if node is None or out is None:
        return ""
    output = int(str(out.attr("index")))
    used = node.inputs[RECURRENT[node.op].places[output - 1]] if output else None
    return next((str(t.attr("name")) for t in topological((used,)) if t.op == "Var"), "") if used else ""


def _state_likeness(
    state: tuple[Term, ...], cells: Collection[tuple[Term, ...]], outputs_of_cells: Collection[Term]
) -> int:
    """Return a score for `state` being the previous state of a cell, if the rule matches with several choices of state.

    A previous state is all outputs of another cell, or it is computed by no cell and is often constant. The input of a
    layer, in contrast, is computed by the layer below.
    """
    if state in cells:
        return 3
    return 2 * all(term not in outputs_of_cells for term in state) + all(term.is_constant for term in state)


def _is_typed(rule: Rule, bindings: Bindings) -> bool:
    """Return True if the right side is well-typed. It is not if input and state are exchanged and differ in size."""
    try:
        instantiate(rule.rhs, bindings, bindings.dtype() or "float")
    except IllTyped:
        return False
    return True


def find_chains(index: GraphIndex, rules: Sequence[ChainRule]) -> Iterator[_Found]:
    """Yield the chains of steps with the same weights: the rule for the chain's length, and its roots."""
    taken: set[Term] = set()
    for joining in sorted(rules, key=lambda rule: -len(rule.rule.lhs)):
        nodes = [
            term
            for term in index.position
            if term.op == joining.first.op and not term.is_constant and term not in taken
        ]
        before = {node: joining.predecessor(node) for node in nodes}
        follows = {first: node for node, first in before.items() if first in before}
        for start in nodes:
            if before[start] in before or start not in follows:
                continue
            chain = [start]
            while chain[-1] in follows:
                chain.append(follows[chain[-1]])
            live = [(k, t) for k, node in enumerate(chain) for t in index.users.get(node, []) if t.op == "Out"]
            inner = set(chain)
            wanted = [
                (k, t)
                for k, t in live
                if t in index.outputs or not inner.issuperset(index.users.get(t, ())) or k == len(chain) - 1
            ]
            rule = joining.for_steps(len(chain), [(k, int(str(t.attr("index")))) for k, t in reversed(wanted)])
            if rule is not None:
                taken.update(chain)
                yield _Found(rule, tuple(t for _, t in reversed(wanted)), rule, joining.rule.id)


@lru_cache(maxsize=_MAX_SIDES)
def _has_layer(side: tuple[Term, ...]) -> bool:
    return any(term.op in RECURRENT for term in topological(side))


def _removes_movement(rule: Rule) -> bool:
    """Return True for rules that replace data movement by its original value, or by a transpose of that value."""
    left, right = rule.lhs[0], rule.rhs[0]
    if right.op == "Transpose" and right.inputs[0] is not None and joins(left.op):
        right = right.inputs[0]
    # The form is asked for first: properties of operators are read off their definitions when they are first needed.
    fits = len(rule.lhs) == 1 and right.op == "Var"
    return fits and all(t.op in ("Out", "Var") or moves(t.op) for t in topological(rule.lhs))


def _find_needless_movement(index: GraphIndex, rules: Sequence[Rule]) -> Iterator[_Found]:
    """Yield the places where data is moved and moved back. Rules for two operands are extended to n operands."""
    by_op: dict[str, list[Rule]] = {}
    for rule in rules:
        by_op.setdefault(rule.lhs[0].op, []).append(rule)
    for term in index.computed:
        for rule in by_op.get(term.op, ()):
            rule_id = rule.id
            if 2 == len(rule.lhs[0].inputs) < len(term.inputs) <= _MAX_CONCAT_OPERANDS:
                form = next((form for form in variadic_forms(schema_of(rule)) if not form.single_operands), None)
                rule = rule if form is None else form.schema(len(term.inputs), 0).rule
            if match(rule.lhs, (term,)) is not None:
                yield _Found(rule, (term,), rule, rule_id)
                break


def _trace(found: Iterable[_Found], check: Check, rule_ids: dict[Rule, str]) -> Trace:
    """Return a trace that applies all matches at which the rule is proven; equal occurrences share one rewrite.

    The ids of the steps' rules are added to `rule_ids`.
    """
    rewrites: dict[tuple[Rule, tuple[Term, ...]], Rewrite | None] = {}
    applications: list[Application] = []
    for rule, roots, listed, rule_id in found:
        rule_ids[rule] = rule_id
        leaves = _leaves(rule, roots)
        before = replace(roots, {actual: leaf for leaf, actual in leaves})
        if (rule, before) not in rewrites:
            rewrites[rule, before] = _rewrite(rule, listed, before, check)
        rewrite = rewrites[rule, before]
        if rewrite is not None and replace(before, dict(leaves)) == roots:
            applications.append(Application(rewrite, leaves))
    return Trace(tuple(applications))


def _leaves(rule: Rule, roots: tuple[Term, ...]) -> tuple[tuple[Term, Term], ...]:
    """Return (leaf, graph term) for each term bound to a variable; constants in closed form stay as they are."""
    bindings = match(rule.lhs, roots)
    assert bindings is not None
    found: dict[Term, Term] = {}
    for name, term in sorted(bindings.terms.items()):
        if term.op not in CLOSED_FORM:
            op, attr = ("Const", "hash") if term.is_constant else ("Var", "name")
            found.setdefault(term, Term.of(op, (), {attr: name}, (term.type,)))
    return tuple((leaf, actual) for actual, leaf in found.items())


def _rewrite(rule: Rule, listed: Rule, before: tuple[Term, ...], check: Check) -> Rewrite | None:
    """Return the rewrite of `before` by the rule, or None if it is not proven there or types differ."""
    bindings = match(rule.lhs, before)
    signature = None if bindings is None else check(listed, bindings)
    if bindings is None or signature is None:
        return None
    results = instantiate(rule.rhs, bindings, bindings.dtype() or "float")
    if any(new.types != old.types for new, old in zip(results, before, strict=True)):
        return None
    return Rewrite(before, (Step(rule, signature, before),), results)
