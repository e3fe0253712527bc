"""The rewriting engine: carries out rewrites and traces, and records the rule that made each new term.

Everything outside the kernel that applies a rewrite uses this file. Nothing here is trusted: `verify.replay` carries
out a trace independently and checks each step, and the written file is made from the replayed graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from superopt.ir.infer import remake, replace
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.term import Term, rebuild, topological
from superopt.ir.trace import Application, Rewrite, Step, Trace

__all__ = [
    "AppliedStep", "AppliedTrace", "applied_steps", "replace_roots", "replacements", "rule_origins", "step_positions",
]  # fmt: skip


def replace_roots(
    outputs: Sequence[Term], roots: Sequence[Term], results: Sequence[Term]
) -> tuple[tuple[Term, ...], dict[Term, Term]]:
    """Return the graph with `roots` replaced by `results`, and a map from each term above the roots to its new term."""
    substitution: dict[Term, Term] = {}

    def make(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        new = substitution[old] = remake(old, inputs)
        return new

    return rebuild(outputs, dict(zip(roots, results, strict=True)), make), substitution


@dataclass(frozen=True)
class AppliedStep:
    """A step carried out: what its variables stand for, its right side, the new terms in it, and the new term for each
    term above the roots."""

    bindings: Bindings
    results: tuple[Term, ...]
    created: tuple[Term, ...]
    substitution: Mapping[Term, Term]


def applied_steps(rewrite: Rewrite) -> Iterator[AppliedStep]:
    """Carry out the steps of a rewrite, one after the other. Raises ValueError for one whose rule does not match."""
    outputs = rewrite.before
    for step in rewrite.steps:
        bindings, results = _right_side(step)
        present = set(topological(outputs))
        outputs, substitution = replace_roots(outputs, step.roots, results)
        yield AppliedStep(bindings, results, tuple(t for t in topological(results) if t not in present), substitution)


def _right_side(step: Step) -> tuple[Bindings, tuple[Term, ...]]:
    bindings = match(step.rule.lhs, step.roots)
    dtype = bindings.dtype() if bindings is not None else None
    if bindings is None or dtype is None:
        raise ValueError(f"rule {step.rule.id} does not match where the trace says")
    return bindings, instantiate(step.rule.rhs, bindings, dtype)


def rule_origins(rewrite: Rewrite, names: Sequence[str]) -> dict[Term, str]:
    """Map each term of `rewrite.after` that a step created to the name of that step. `names` has one name per step."""
    origin: dict[Term, str] = {}
    for applied, name in zip(applied_steps(rewrite), names, strict=True):
        origin = {applied.substitution.get(term, term): rule for term, rule in origin.items()}
        origin.update(dict.fromkeys(applied.created, name))
    kept = set(topological(rewrite.after))
    return {term: rule for term, rule in origin.items() if term in kept}


def step_positions(rewrite: Rewrite) -> list[tuple[Term, ...]]:
    """Return, for each step, the terms of `rewrite.before` whose positions the step's roots occupy.

    An operator that was remade over rewritten inputs keeps its position. Terms that a step creates have the position
    of the step's first root.
    """
    found: list[tuple[Term, ...]] = []
    position = {term: term for term in topological(rewrite.before)}
    for step, applied in zip(rewrite.steps, applied_steps(rewrite), strict=True):
        here = [position[root] for root in step.roots]
        found.append(tuple(dict.fromkeys(here)))
        for result, root in zip(applied.results, here, strict=True):
            position.setdefault(result, root)
        position.update({term: here[0] for term in topological(applied.results) if term not in position})
        for old, new in applied.substitution.items():
            position.setdefault(new, position[old])
    return found


def replacements(trace: Trace) -> dict[Term, Term]:
    """Map the model's term at each output of each rewritten region to its replacement.

    Replacements read the model's terms outside the region, as they were before the trace.
    """
    found: dict[Term, Term] = {}
    for application in trace.applications:
        leaves = dict(application.leaves)
        before, after = replace(application.rewrite.before, leaves), replace(application.rewrite.after, leaves)
        found.update((b, a) for b, a in zip(before, after, strict=True) if a is not b)
    return found


class AppliedTrace:
    """A trace carried out on a graph: the new outputs, and the new term for each term of the old graph.

    `origin` maps each new term to the rule that made it. It is filled from `origin_of`, which maps each rewrite to the
    rules that made terms of its `after` (see `rule_origins`).
    """

    def __init__(self, outputs: Sequence[Term], trace: Trace, origin_of: Mapping[Rewrite, Mapping[Term, str]]) -> None:
        self._new: dict[Term, Term] = {}
        self.origin: dict[Term, str] = {}
        for application in trace.applications:
            self._apply(application, origin_of.get(application.rewrite, {}))
        self.outputs = tuple(self.became(output) for output in outputs)

    def _apply(self, application: Application, created: Mapping[Term, str]) -> None:
        rewrite = application.rewrite
        originals = replace(rewrite.before, dict(application.leaves))
        leaves = {leaf: self.became(term) for leaf, term in application.leaves}
        results = replace((*rewrite.after, *created), leaves)
        for original, result in zip(originals, results, strict=False):
            self._new[original] = result
        for term, rule in zip(results[len(rewrite.after) :], created.values(), strict=True):
            self.origin.setdefault(term, rule)

    def became(self, term: Term) -> Term:
        """Return the new term for a term of the old graph."""
        new = self._new
        stack = [term]
        while stack:
            old = stack[-1]
            missing = [] if old in new else [i for i in old.inputs if i is not None and i not in new]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            if old not in new:
                inputs = tuple(None if i is None else new[i] for i in old.inputs)
                new[old] = old if inputs == old.inputs else remake(old, inputs)
        return new[term]
