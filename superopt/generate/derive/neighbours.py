"""One rewriting step: all terms that one application of a rule leads to.

Rewriting a subterm does not depend on the terms around it, and terms are interned. So the steps of a subterm are found
once, and lifted to all terms that contain the subterm. A subterm that occurs several times in a graph is one term, and
a step changes all its occurrences.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from superopt.generate.derive.canonical import canonical
from superopt.generate.derive.constants import folded, is_folded
from superopt.ir.infer import IllTyped
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.rule import Rule
from superopt.ir.term import Term, map_terms, node_of, topological
from superopt.rulebook.commutative import is_commutative, operand_orders, ordered_operands

__all__ = ["Neighbours", "PossibleStep", "RewriteEdge", "StepCheck", "normal", "outputs", "together"]

# Returns True if a step is valid. Arguments: rule, bindings, instance of its left side, instance of its right side.
StepCheck: TypeAlias = Callable[[Rule, Bindings, Term, Term], bool]
# Returns False if a step is known to be invalid, without a proof.
PossibleStep: TypeAlias = Callable[[Rule, Bindings], bool]

_TUPLE = "(,)"  # a pseudo-operator that makes one term of several outputs


def together(terms: tuple[Term, ...]) -> Term:
    """Return a graph as one term: its output, or the tuple of its outputs."""
    return terms[0] if len(terms) == 1 else Term.of(_TUPLE, terms, {})


def outputs(term: Term) -> tuple[Term, ...]:
    """Return the outputs that `together` put into `term`."""
    return tuple(i for i in term.inputs if i is not None) if term.op == _TUPLE else (term,)


def normal(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return the terms in normal form: attributes in one form, constants folded, operands in one order."""
    return map_terms(terms, _normal)


def _normal(term: Term, inputs: tuple[Term | None, ...]) -> Term:
    """Return `term` over inputs in normal form, in normal form."""
    return folded(canonical(ordered_operands(term, inputs)))


@dataclass(frozen=True, eq=False)
class RewriteEdge:
    """A step: `place` becomes `new` by the rule with this number, left to right (`forward`) or right to left.

    `is_valid` answers for a direction: True is from `place` to `new`. Most steps are never asked for, and a proof may
    take a second: so it is asked once, when a search comes to it. `is_possible` answers without a proof: False if the
    step is known to be invalid. Its answer may change when proofs fail.
    """

    number: int
    forward: bool
    place: Term
    new: Term
    is_valid: Callable[[bool], bool]
    is_possible: Callable[[bool], bool]

    @cached_property
    def there(self) -> bool:
        """True if the step is valid from `place` to `new`."""
        return self.is_valid(True)

    @cached_property
    def back(self) -> bool:
        """True if the step is valid from `new` to `place`."""
        return self.is_valid(False)


@dataclass(frozen=True, eq=False)
class _Variant:
    """A rule in one direction, with the operands of commutative operators on its left side in one order."""

    number: int
    forward: bool
    directed: Rule  # the rule from the match to its replacement
    opposite: Rule  # the rule from the replacement back to the match
    lhs: Term
    rhs: Term
    inner: tuple[tuple[int, str], ...]  # (operand number, required head) of the left side's root

    @cached_property
    def reshapes(self) -> bool:
        """True if the left side has a Reshape."""
        return any(term.op == "Reshape" for term in topological((self.lhs,)))

    def may_fit(self, heads: tuple[str, ...]) -> bool:
        """Return False if the heads rule out a match."""
        return all(heads[1 + place] == head for place, head in self.inner)


class Neighbours:
    """The terms one step away from any term, in normal form, by the rules added so far."""

    def __init__(self, is_valid: StepCheck, is_possible: PossibleStep | None = None) -> None:
        self.rules: list[Rule] = []
        self.tried = 0  # steps whose validity was checked
        self._is_valid = is_valid
        self._is_possible = is_possible
        self._variants: dict[tuple[str, int], list[_Variant]] = {}  # by head of the left side and number of operands
        self._fitting: dict[tuple[str, ...], list[_Variant]] = {}  # by head of a term and of its operands
        self._looked: dict[tuple[str, ...], int] = {}  # number of variants already tested for `_fitting`
        self._matched: dict[Term, int] = {}  # number of fitting variants already matched against a term
        self._ahead: dict[Term, dict[_Variant, RewriteEdge | None]] = {}  # steps found before `_matched` came to them
        self._at_root: dict[Term, list[RewriteEdge]] = {}  # steps that replace a whole term, in the order found
        self._near: dict[Term, dict[RewriteEdge, Term]] = {}  # steps of a term, in the order found; only appended to
        self._lifted: dict[Term, dict[Term, int]] = {}  # number of steps already lifted from each operand of a term
        self._forms: dict[Term, Term] = {}  # normal forms of terms; of a normal form, itself
        self._fresh: dict[Term, int] = {}  # number of rules when a term's steps were last updated

    def add(self, rule: Rule) -> int:
        """Add a rule and return its number."""
        number = len(self.rules)
        self.rules.append(rule)
        for directed, opposite in ((rule, rule.reversed()), (rule.reversed(), rule)):
            if directed.applicable:
                for lhs, rhs in _variants(directed):
                    heads = _heads(lhs)
                    inner = tuple((k, head) for k, head in enumerate(heads[1:]) if head != "Var")
                    variant = _Variant(number, directed is rule, directed, opposite, lhs, rhs, inner)
                    self._variants.setdefault((heads[0], len(heads)), []).append(variant)
        return number

    def of(self, term: Term) -> Mapping[RewriteEdge, Term]:
        """Return the steps from a term in normal form, and the term after each. Several steps may lead to one term."""
        now = len(self.rules)
        if self._fresh.get(term) != now:
            for below in topological((term,)):
                if below.inputs and self._fresh.get(below) != now:
                    self._find(below)
                    self._fresh[below] = now
        return self._near.get(term, {})

    def toward(self, term: Term, targets: frozenset[Term]) -> Iterator[tuple[RewriteEdge, Term]]:
        """Yield those of the steps `of(term)` that lead to one of `targets`, in the same order.

        The other steps are not made: a step in an operand leads to a target only if the target has the same operator,
        and that operand after the step. (A constant may be what an operator over constants was folded into.)
        """
        if not targets or not term.inputs:
            return
        if any(is_folded(target) for target in targets):
            yield from ((edge, new) for edge, new in self.of(term).items() if new in targets)
            return
        ops = {target.op for target in targets}
        yield from ((edge, edge.new) for edge in self._here_toward(term, ops) if edge.new in targets)
        alike = [t for t in targets if t.op == term.op and t.attrs == term.attrs and len(t.inputs) == len(term.inputs)]
        seen: set[RewriteEdge] = set()
        for place, operand in enumerate(term.inputs):
            if operand is None or not alike:
                continue
            after = {used for t in alike for used in (t.inputs if is_commutative(t) else t.inputs[place : place + 1])}
            for edge, _ in self.toward(operand, frozenset(used for used in after - {operand} if used is not None)):
                if edge not in seen:
                    seen.add(edge)
                    new = self._after(term, edge)
                    if new in targets:
                        yield edge, new

    def leads(self, term: Term, to: Term, gone: frozenset[int]) -> bool:
        """Return True if a valid step leads from `term` to `to`, by a rule whose number is not in `gone`."""
        return any(edge.there and edge.number not in gone for edge, _ in self.toward(term, frozenset({to})))

    def forget(self) -> None:
        """Free memory; steps are found again when they are needed."""
        for table in (self._matched, self._ahead, self._at_root, self._near, self._lifted, self._forms, self._fresh):
            table.clear()

    def _find(self, term: Term) -> None:
        """Find the steps of a term whose operands' steps are known."""
        near = self._near.setdefault(term, {})
        for edge in self._here(term):
            near.setdefault(edge, edge.new)
        lifted = self._lifted.setdefault(term, {})
        for operand in term.inputs:
            below = self._near.get(operand) if operand is not None else None
            if below and operand is not None:
                for edge in itertools.islice(below, lifted.get(operand, 0), None):
                    if edge not in near:
                        near[edge] = self._over(term, edge)
                lifted[operand] = len(below)

    def _over(self, term: Term, edge: RewriteEdge) -> Term:
        """Return `term` after a step in its operands. Types do not change, so its attributes stay canonical."""
        near = self._near
        inputs = tuple([i if i is None or i not in near else near[i].get(edge, i) for i in term.inputs])
        return self._rebuilt(term, inputs)

    def _rebuilt(self, term: Term, inputs: tuple[Term | None, ...]) -> Term:
        """Return `term` over inputs of the same types, in normal form."""
        new = folded(ordered_operands(term, inputs))
        self._forms[new] = new
        return new

    def _after(self, term: Term, edge: RewriteEdge) -> Term:
        """Return `term` after a step, whether its operands' steps are known or not."""

        def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
            if old is edge.place:
                return edge.new
            return old if inputs == old.inputs else self._rebuilt(old, inputs)

        (new,) = map_terms((term,), build)
        return new

    def _form(self, term: Term) -> Term:
        """Return the normal form of `term`. What it contains of terms in normal form is not looked at again."""
        forms, stack = self._forms, [term]
        while stack:
            top = stack[-1]
            missing = [i for i in top.inputs if i is not None and i not in forms] if top not in forms else []
            if missing:
                stack += missing
                continue
            stack.pop()
            if top not in forms:
                new = forms[top] = _normal(top, tuple(None if i is None else forms[i] for i in top.inputs))
                forms[new] = new
        return forms[term]

    def _here(self, term: Term) -> list[RewriteEdge]:
        """Return the steps at the root."""
        found = self._at_root.setdefault(term, [])
        fitting, ahead = self._may_fit(_heads(term)), self._ahead.pop(term, {})
        for variant in itertools.islice(fitting, self._matched.get(term, 0), None):
            edge = ahead.pop(variant) if variant in ahead else self._step(term, variant)
            if edge is not None:
                found.append(edge)
        self._matched[term] = len(fitting)
        return found

    def _here_toward(self, term: Term, ops: set[str]) -> list[RewriteEdge]:
        """Return the steps at the root whose result may have one of these operators, none of them a folded constant.

        The other rules are not matched: a right side keeps its operator when it is instantiated. Matching at the terms
        of the last layer took 80% of a search for tests/prover/foreign/textbook.true.rules 780638552a8f.
        """
        fitting, done = self._may_fit(_heads(term)), self._matched.get(term, 0)
        found, ahead = list(self._at_root.get(term, ())), self._ahead.setdefault(term, {})
        for variant in itertools.islice(fitting, done, None):
            if variant.rhs.op == "Var" or variant.rhs.op in ops:
                if variant not in ahead:
                    ahead[variant] = self._step(term, variant)
                edge = ahead[variant]
                if edge is not None:
                    found.append(edge)
        return found

    def _may_fit(self, heads: tuple[str, ...]) -> list[_Variant]:
        """Return the variants whose left side has these operators at its root and just below."""
        fitting = self._fitting.setdefault(heads, [])
        known = self._variants.get((heads[0], len(heads)), [])
        fitting += [v for v in itertools.islice(known, self._looked.get(heads, 0), None) if v.may_fit(heads)]
        self._looked[heads] = len(known)
        return fitting

    def _step(self, place: Term, variant: _Variant) -> RewriteEdge | None:
        """Return the step by a variant at `place`, or None if it does not match or is not valid."""
        bindings = match((variant.lhs,), (place,))
        dtype = None if bindings is None else bindings.dtype()
        if bindings is None or dtype is None:
            return None
        try:
            # The matcher takes one statement of a Reshape's target for another one, which is so at known sizes only.
            if variant.reshapes and instantiate((variant.lhs,), bindings, dtype)[0] is not place:
                return None
            new = self._form(instantiate((variant.rhs,), bindings, dtype)[0])
        except IllTyped:  # the right side does not exist at these sizes
            return None
        if new is place or any(a.types != b.types for a, b in zip(outputs(new), outputs(place), strict=True)):
            return None

        def is_valid(there: bool) -> bool:
            self.tried += 1
            if there:
                return self._is_valid(variant.directed, bindings, place, new)
            return self._is_valid(variant.opposite, bindings, new, place)

        def is_possible(there: bool) -> bool:
            directed = variant.directed if there else variant.opposite
            return self._is_possible is None or self._is_possible(directed, bindings)

        return RewriteEdge(variant.number, variant.forward, place, new, is_valid, is_possible)


def _variants(rule: Rule) -> Iterator[tuple[Term, Term]]:
    """Yield both sides, with operands of the left side and outputs in every order."""
    for variant in operand_orders(rule):
        for order in itertools.permutations(range(len(variant.lhs))):
            yield together(tuple(variant.lhs[k] for k in order)), together(tuple(variant.rhs[k] for k in order))


def _heads(term: Term) -> tuple[str, ...]:
    """Return the operators of a term and of its operands; an output of Split counts as an operator `Split.0`."""
    return (_head(term), *("" if i is None else _head(i) for i in node_of(term).inputs))


def _head(term: Term) -> str:
    if term.op != "Out":
        return term.op
    node = term.inputs[0]
    assert node is not None
    return f"{node.op}.{term.attr('index')}"
