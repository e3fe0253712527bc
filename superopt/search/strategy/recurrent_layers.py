"""Unrolled recurrent layers: cells as the operator of one step, and its steps in time as one.

Both are laws whose left sides are large, each taken in one move and all over the model: a merge of two of a hundred
steps would have to pay by itself, and regions are smaller than a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property

from superopt.ir.infer import IllTyped, replace
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.rule import Rule
from superopt.ir.term import CLOSED_FORM, Term, topological
from superopt.ir.trace import Application, Rewrite, Step, Trace
from superopt.ops.recurrent import RECURRENT
from superopt.rulebook.chain import ChainRule, chain_rule
from superopt.rulebook.commutative import guided_orders
from superopt.rulebook.variadic import schema_of, variadic_forms
from superopt.search.match.graph_index import GraphIndex, node_of
from superopt.search.match.signature_check import Check

__all__ = ["Recurrences", "cells", "chains"]

_MOVES = frozenset({"Concat", "Gather", "Out", "Split", "Squeeze", "Unsqueeze", "Var"})
_MOST = 256  # parts that are put together again: what the prover can do


class Recurrences:
    """The rules that make recurrent operators of what is written out."""

    def __init__(self, rules: Iterable[Rule], available: Callable[[str], bool] = lambda op: True) -> None:
        """`available`: whether the model's operator set has an operator."""
        self._rules = list(rules)
        made = ((rule, _rolled_up(rule)) for rule in self._rules)
        self._cells = sorted((r for r, ops in made if ops and all(map(available, ops))), key=lambda r: -len(r.lhs))
        self._keys = {*(f"Out:{op}" for op in RECURRENT), *(root.op for r in self._cells for root in r.lhs)}

    @cached_property
    def _laws(self) -> list[ChainRule]:
        return [law for rule in self._rules if (law := chain_rule(rule)) is not None]

    @cached_property
    def _small(self) -> list[Rule]:
        return [rule for rule in self._rules if _is_idle(rule)]

    def trace(self, outputs: Sequence[Term], check: Check) -> Trace | None:
        """What to do next with the graph: its cells, what is idle, one chain; None where there is nothing left."""
        view = GraphIndex(outputs)
        if not self._cells or self._keys.isdisjoint(view.by_key):
            return None
        ways = (cells(view, self._cells), _idle(view, self._small), chains(view, self._laws))
        return next((trace for way in ways if (trace := _trace(way, check)).applications), None)


def _rolled_up(rule: Rule) -> set[str]:
    """Recurrent operators that take the place of others."""
    after = RECURRENT.keys() & {t.op for t in topological(rule.rhs)}
    return after and after - {t.op for t in topological(rule.lhs)}


def cells(view: GraphIndex, rules: Sequence[Rule]) -> Iterator[tuple[Rule, tuple[Term, ...]]]:
    """Where rules of cells fit: the rule in the order of operands that is found there, and its roots."""
    taken: set[Term] = set()
    for rule in rules:
        whole = max(rule.lhs, key=lambda root: len(list(topological((root,)))))
        if not set(rule.lhs) <= set(topological((whole,))):
            continue
        fits: dict[tuple[Term, ...], list[tuple[Rule, Bindings]]] = {}
        for term in view.by_key.get(whole.op, []):
            for ordered, roots in guided_orders(rule, whole, term):
                bindings = match(ordered.lhs, roots)
                if bindings is not None and taken.isdisjoint(roots):
                    fits.setdefault(roots, []).append((ordered, bindings))
        states = [name for root in rule.rhs if (name := _state(rule, root))]
        made = {root for roots in fits for root in roots}
        for roots, ways in fits.items():
            scores = [_goes_on(tuple(b.terms[name] for name in states), fits, made) for _, b in ways]
            best = [way for way, score in zip(ways, scores, strict=True) if score == max(scores)]
            yield next((ordered for ordered, bindings in best[:-1] if _is_typed(ordered, bindings)), best[-1][0]), roots
            taken.update(roots)


def _state(rule: Rule, root: Term) -> str:
    """The variable that takes the place of an output of the operator, in the step before."""
    out = next((t for t in topological((root,)) if t.op == "Out" and node_of(t).op in RECURRENT), None)
    node = None if out is None else out.inputs[0]
    if node is None or out is None:
        return ""
    index = int(str(out.attr("index")))
    used = node.inputs[RECURRENT[node.op].places[index - 1]] if index else None
    return next((str(t.attr("name")) for t in topological((used,)) if t.op == "Var"), "") if used else ""


def _goes_on(before: tuple[Term, ...], known: Collection[tuple[Term, ...]], made: Collection[Term]) -> int:
    """How much `before` looks like a state: which of two operands is one may be open. It is that of another cell as a
    whole, or `made` by none (what a layer reads is of the one below) and then constant perhaps."""
    if before in known:
        return 3
    return 2 * all(term not in made for term in before) + all(term.weight_only for term in before)


def _is_typed(rule: Rule, bindings: Bindings) -> bool:
    """Whether the right side exists: what is read and what is kept differ in size."""
    try:
        instantiate(rule.rhs, bindings, bindings.dtype() or "float")
    except IllTyped:
        return False
    return True


def chains(view: GraphIndex, laws: Sequence[ChainRule]) -> Iterator[tuple[Rule, tuple[Term, ...]]]:
    """Where operators of one step follow each other with the same weights: the law of so many steps, and its roots."""
    for law in sorted(laws, key=lambda law: -len(law.rule.lhs)):
        nodes = [term for term in view.position if term.op == law.first.op and not term.weight_only]
        before = {node: law.predecessor(node) for node in nodes}
        follows = {first: node for node, first in before.items() if first in before}
        for start in nodes:
            if before[start] in before or start not in follows:
                continue
            chain = [start]
            while chain[-1] in follows:
                chain.append(follows[chain[-1]])
            live = [(k, t) for k, node in enumerate(chain) for t in view.users.get(node, []) if t.op == "Out"]
            inner = set(chain)
            wanted = [
                (k, t)
                for k, t in live
                if t in view.outputs or not inner.issuperset(view.users.get(t, ())) or k == len(chain) - 1
            ]
            rule = law.for_steps(len(chain), [(k, int(str(t.attr("index")))) for k, t in reversed(wanted)])
            if rule is not None:
                yield rule, tuple(t for _, t in reversed(wanted))
                return  # a chain may depend on another


def _is_idle(rule: Rule) -> bool:
    """Whether moved data is a value that was there, or, put together of parts, such a value transposed."""
    left, right = rule.lhs[0], rule.rhs[0]
    if (left.op, right.op) == ("Concat", "Transpose") and right.inputs[0] is not None:
        right = right.inputs[0]
    return len(rule.lhs) == 1 and right.op == "Var" and all(t.op in _MOVES for t in topological(rule.lhs))


def _idle(view: GraphIndex, rules: Sequence[Rule]) -> Iterator[tuple[Rule, tuple[Term, ...]]]:
    """Where data is moved in vain; rules of two operands as laws of n."""
    by_op: dict[str, list[Rule]] = {}
    for rule in rules:
        by_op.setdefault(rule.lhs[0].op, []).append(rule)
    for term in view.computed:
        for rule in by_op.get(term.op, ()):
            if 2 == len(rule.lhs[0].inputs) < len(term.inputs) <= _MOST:
                found = next((r for r in variadic_forms(schema_of(rule)) if not r.single_operands), None)
                rule = rule if found is None else found.schema(len(term.inputs), 0).rule
            if match(rule.lhs, (term,)) is not None:
                yield rule, (term,)
                break


def _trace(found: Iterable[tuple[Rule, tuple[Term, ...]]], check: Check) -> Trace:
    """One rewrite for all places that are alike."""
    known: dict[tuple[Rule, tuple[Term, ...]], Rewrite | None] = {}
    applications: list[Application] = []
    for rule, roots in found:
        leaves = _leaves(rule, roots)
        before = replace(roots, {actual: leaf for leaf, actual in leaves})
        if (rule, before) not in known:
            known[rule, before] = _rewrite(rule, before, check)
        rewrite = known[rule, before]
        if rewrite is not None and replace(before, dict(leaves)) == roots:
            applications.append(Application(rewrite, leaves))
    return Trace(tuple(applications))


def _leaves(rule: Rule, roots: tuple[Term, ...]) -> tuple[tuple[Term, Term], ...]:
    """A leaf for what each variable stands for. Constants that nothing else says are their own."""
    bindings = match(rule.lhs, roots)
    assert bindings is not None
    found: dict[Term, Term] = {}
    for name, term in sorted(bindings.terms.items()):
        if term.op not in CLOSED_FORM:
            op, attr = ("Const", "hash") if term.weight_only else ("Var", "name")
            found.setdefault(term, Term.of(op, (), {attr: name}, (term.type,)))
    return tuple((leaf, actual) for actual, leaf in found.items())


def _rewrite(rule: Rule, before: tuple[Term, ...], check: Check) -> Rewrite | None:
    bindings = match(rule.lhs, before)
    signature = None if bindings is None else check(rule, bindings)
    if bindings is None or signature is None:
        return None
    results = instantiate(rule.rhs, bindings, bindings.dtype() or "float")
    if any(new.types != old.types for new, old in zip(results, before, strict=True)):
        return None
    return Rewrite(before, (Step(rule, signature, before),), results)
