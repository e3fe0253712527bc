"""Candidates without the rewrites that introduce an operator that cannot be written."""

from __future__ import annotations

from dataclasses import replace as replaced_fields

from superopt.ir.infer import replace
from superopt.ir.term import Term, topological
from superopt.ir.trace import Application, Rewrite, Trace
from superopt.optimizer.candidates import ModelCandidate
from superopt.search.apply import AppliedTrace

__all__ = ["without_operator"]

_SUFFIX = ", as far as it can be written"


def without_operator(candidate: ModelCandidate, outputs: tuple[Term, ...], unwritable: Term) -> ModelCandidate | None:
    """Return `candidate` without the rewrites that introduce `unwritable`, or None if no rewrite does.

    `outputs` are those of the original graph. Rewrites of later passes are carried over to the graph that results;
    those that rewrite a result of the left-out ones are left out as well.
    """
    guilty = {
        application.rewrite
        for trace in candidate.traces
        for application in trace.applications
        if _introduces(application.rewrite, unwritable)
    }
    if not guilty:
        return None
    traces: list[Trace] = []
    now: dict[Term, Term] = {}  # the term in the new graph for each term of the old one, where they differ
    was, new = outputs, outputs
    for trace in candidate.traces:
        kept = _carried_over(trace, now, guilty, new)
        before, after = AppliedTrace(was, trace, {}), AppliedTrace(new, kept, {})
        now = {
            before.became(term): after.became(counterpart)
            for term, counterpart in zip(topological(was), replace(topological(was), now), strict=True)
        }
        was, new = before.outputs, after.outputs
        if kept.applications:
            traces.append(kept)
    name = candidate.name.removesuffix(_SUFFIX) + _SUFFIX
    return replaced_fields(candidate, name=name, traces=tuple(traces))


def _introduces(rewrite: Rewrite, unwritable: Term) -> bool:
    """Return True if the rewrite's result has the operator with these attributes, and the region before has not."""

    def has(terms: tuple[Term, ...]) -> bool:
        return any(t.op == unwritable.op and t.attrs == unwritable.attrs for t in topological(terms))

    return has(rewrite.after) and not has(rewrite.before)


def _carried_over(trace: Trace, now: dict[Term, Term], guilty: set[Rewrite], new: tuple[Term, ...]) -> Trace:
    """Return the applications of `trace` whose regions are in the graph `new`, without the `guilty` rewrites."""
    present, found = set(topological(new)), []
    for application in trace.applications:
        actual = replace((term for _, term in application.leaves), now)
        leaves = tuple((leaf, term) for (leaf, _), term in zip(application.leaves, actual, strict=True))
        region = replace(application.rewrite.before, dict(leaves))
        same = all(leaf.type == term.type for leaf, term in leaves)
        if application.rewrite not in guilty and same and present.issuperset(region):
            found.append(Application(application.rewrite, leaves))
    return Trace(tuple(found))
