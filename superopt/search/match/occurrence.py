"""Occurrences of left sides in a graph, and matches: occurrences where the right side has fitting types.

Matching has two stages. `align` compares operators, outputs and sharing only, which decides most cases. An `Occurrence`
then computes its `match` on demand: it binds attributes and types (`superopt.ir.pattern.match`, the matcher that the
kernel trusts) and instantiates the right side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from superopt.ir.infer import IllTyped
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.term import Term
from superopt.onnx_io.nodes.node_export import is_free
from superopt.search.match.compiled_rule import CompiledRule
from superopt.search.match.empty_tensors import may_be_refused
from superopt.search.match.overflow import moves_factors_across_sums

__all__ = ["Match", "Occurrence", "align"]


def align(pattern: Term, term: Term) -> dict[Term, Term] | None:
    """Map each term of `pattern` to a term at or below `term`; None if operators, outputs or sharing do not agree.

    Attributes other than an output's index are not compared.
    """
    at: dict[Term, Term] = {}
    stack: list[tuple[Term, Term]] = [(pattern, term)]
    while stack:
        p, t = stack.pop()
        if at.setdefault(p, t) is not t:
            return None
        if p.op != "Var":
            if p.op != t.op or len(p.inputs) != len(t.inputs):
                return None
            if p.op == "Out" and p.attr("index") != t.attr("index"):  # otherwise parts would be tried in every order
                return None
            for i, j in zip(p.inputs, t.inputs, strict=True):
                if i is not None and j is not None:
                    stack.append((i, j))
                elif i is not j:
                    return None
    return at


@dataclass(frozen=True, eq=False)
class Match:
    """A candidate rewrite: `roots` may be replaced by `results` if the rule is proven for `bindings`.

    `covered` has the run-time terms that match operators of the left side. `touched` also has the terms bound to
    variables.
    """

    compiled: CompiledRule
    bindings: Bindings
    roots: tuple[Term, ...]
    results: tuple[Term, ...]
    covered: frozenset[Term]
    touched: frozenset[Term]

    @cached_property
    def created(self) -> frozenset[Term]:
        """The run-time terms of the results, above the terms bound to variables."""
        bound = set(self.bindings.terms.values())
        created: set[Term] = set()
        stack = list(self.results)
        while stack:
            term = stack.pop()
            if term not in created and term not in bound and not term.is_constant:
                created.add(term)
                stack.extend(i for i in term.inputs if i is not None)
        return frozenset(created)

    @property
    def statistics_key(self) -> str:
        """The key under which `RuleStatistics` counts searches that begin with this rewrite."""
        return self.compiled.rule_id

    @property
    def rewrites_only_weights(self) -> bool:
        """True if the roots keep their operators and run-time inputs, and only their constants are expressed anew.

        There are many such rewrites. One that gains nothing is not a new state, or they would crowd out the others.
        """
        return all(_differs_in_weights_only(new, old) for old, new in zip(self.roots, self.results, strict=True))

    @property
    def folds_into_weights(self) -> bool:
        """True if every result is an operator of the left side over the same run-time inputs and other constants."""
        return all(any(_differs_in_weights_only(new, old) for old in self.covered) for new in self.results)


def _differs_in_weights_only(new: Term, old: Term) -> bool:
    return new.op == old.op and new.inputs != old.inputs and _run_time_inputs(new) == _run_time_inputs(old)


def _run_time_inputs(term: Term) -> list[Term]:
    return [i for i in term.inputs if i is not None and not i.is_constant]


def _makes_free_weights(match: Match) -> bool:
    """Return True if a result has a weight of a free size. No file can hold it, so every run would compute it, but its
    operators have constant operands only, and so no price."""
    bound = set(match.bindings.terms.values())
    stack = list(match.results)
    while stack:
        term = stack.pop()
        if term not in bound:
            if term.is_constant and term.inputs and any(is_free(value) for _, value in term.attrs):
                return True
            stack += [i for i in term.inputs if i is not None]
    return False


class Occurrence:
    """Graph terms whose operators agree with a rule's left side.

    `at` maps terms of the left side to terms of the graph. `mismatches` is shared by all occurrences. It has the
    attributes and types at which a rule was found not to fit. `lacks(terms)` is True if one of them may not be made.
    """

    def __init__(
        self,
        compiled: CompiledRule,
        roots: tuple[Term, ...],
        at: dict[Term, Term],
        mismatches: set[tuple[object, ...]],
        lacks: Callable[[Iterable[Term]], bool],
    ) -> None:
        self.compiled, self.roots, self._lacks = compiled, roots, lacks
        self._at, self._mismatches = at, mismatches
        self.touched = frozenset(t for t in at.values() if not t.is_constant)

    @cached_property
    def match(self) -> Match | None:
        """The match, if attributes and types fit as well."""
        # A mismatch depends on attributes and types only, and a model has many occurrences that agree in both.
        key = self.compiled, *[t.types if p.op == "Var" else (t.attrs, t.types) for p, t in self._at.items()]
        if key in self._mismatches:
            return None
        fitting = self._instantiated()
        if fitting is None:
            self._mismatches.add(key)
            return None
        bindings, results = fitting
        if results == self.roots or any(root.is_constant for root in self.roots):
            return None
        covered = frozenset(t for pattern, t in self._at.items() if pattern.op != "Var" and not t.is_constant)
        found = Match(self.compiled, bindings, self.roots, results, covered, self.touched)
        if bindings.dtype() == "float16" and (
            self.compiled.is_denormal_rule or moves_factors_across_sums(found.covered, found.created)
        ):
            return None
        if may_be_refused(found.covered, found.created) or _makes_free_weights(found) or self._lacks(found.created):
            return None
        # A result that contains a replaced root only adds operators.
        replaced = [root for root, result in zip(self.roots, results, strict=True) if result != root]
        return None if not found.created.isdisjoint(replaced) else found

    def _instantiated(self) -> tuple[Bindings, tuple[Term, ...]] | None:
        """Return the bindings and the instantiated right side, or None if its types are not those of the left side."""
        bindings = match(self.compiled.rule.lhs, self.roots)
        dtype = None if bindings is None else bindings.dtype()
        if bindings is None or dtype is None:
            return None
        try:
            results = instantiate(self.compiled.rule.rhs, bindings, dtype)
        except IllTyped:  # the right side does not exist at these sizes: a guard of the rule fails
            return None
        alike = all(o.type is not None and n.types == o.types for n, o in zip(results, self.roots, strict=True))
        return (bindings, results) if alike else None
