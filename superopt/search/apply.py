"""Carrying out a trace: each region's result put in place of the region, everything above made anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from superopt.ir.infer import remake, replace
from superopt.ir.pattern import instantiate, match
from superopt.ir.term import Term, rebuild, topological
from superopt.ir.trace import Rewrite, Step, Trace

__all__ = ["Applied", "apply_trace", "fill", "origins", "places"]


def fill(outputs: Sequence[Term], leaves: Mapping[Term, Term]) -> tuple[Term, ...]:
    """`outputs` with each leaf exchanged for the term that it stands for."""
    return replace(outputs, leaves)


class Applied:
    """A trace carried out on a graph: the new outputs, and what each term of the old graph became."""

    def __init__(self, outputs: Sequence[Term], trace: Trace, origin_of: Mapping[Rewrite, Mapping[Term, str]]) -> None:
        self._new: dict[Term, Term] = {}
        self.origin: dict[Term, str] = {}  # id of the rule that made a term
        for application in trace.applications:
            rewrite = application.rewrite
            originals = fill(rewrite.before, dict(application.leaves))
            leaves = {leaf: self.became(term) for leaf, term in application.leaves}
            made = origin_of.get(rewrite, {})
            results = fill((*rewrite.after, *made), leaves)
            for original, result in zip(originals, results, strict=False):
                self._new[original] = result
            for term, rule in zip(results[len(rewrite.after) :], made.values(), strict=True):
                self.origin.setdefault(term, rule)
        self.outputs = tuple(self.became(output) for output in outputs)

    def became(self, term: Term) -> Term:
        """The new term for a term of the old graph."""
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


def apply_trace(outputs: Sequence[Term], trace: Trace) -> tuple[Term, ...]:
    """The graph after all applications of `trace`, which are in topological order."""
    return Applied(outputs, trace, {}).outputs


def origins(rewrite: Rewrite, names: Sequence[str]) -> dict[Term, str]:
    """For each term of `rewrite.after` that a step made, the name of that step (`names`, one a step)."""
    origin: dict[Term, str] = {}
    outputs = rewrite.before
    for step, name in zip(rewrite.steps, names, strict=True):
        results = _results(step)
        present = set(topological(outputs))
        moved: dict[Term, Term] = {}

        def make(old: Term, inputs: tuple[Term | None, ...], moved: dict[Term, Term] = moved) -> Term:
            new = moved[old] = remake(old, inputs)
            return new

        outputs = rebuild(outputs, dict(zip(step.roots, results, strict=True)), make)
        origin = {moved.get(term, term): rule for term, rule in origin.items()}
        origin.update({term: name for term in topological(results) if term not in present})
    kept = set(topological(rewrite.after))
    return {term: rule for term, rule in origin.items() if term in kept}


def places(rewrite: Rewrite) -> list[tuple[Term, ...]]:
    """For each step the terms of `rewrite.before` whose places its roots have: an operator over rewritten inputs has
    its own, and what a step makes has that of the step's first root."""
    found: list[tuple[Term, ...]] = []
    outputs = rewrite.before
    place = {term: term for term in topological(outputs)}
    for step in rewrite.steps:
        here = [place[root] for root in step.roots]
        found.append(tuple(dict.fromkeys(here)))
        results = _results(step)
        for result, was in zip(results, here, strict=True):
            place.setdefault(result, was)
        place.update({term: here[0] for term in topological(results) if term not in place})

        def make(old: Term, inputs: tuple[Term | None, ...]) -> Term:
            new = remake(old, inputs)
            place.setdefault(new, place[old])
            return new

        outputs = rebuild(outputs, dict(zip(step.roots, results, strict=True)), make)
    return found


def _results(step: Step) -> tuple[Term, ...]:
    bindings = match(step.rule.lhs, step.roots)
    dtype = bindings.dtype() if bindings is not None else None
    if bindings is None or dtype is None:
        raise ValueError(f"rule {step.rule.id} does not match where the trace says")
    return instantiate(step.rule.rhs, bindings, dtype)
