"""Parts of a candidate: without an operator that cannot be written, or without what takes too long to fold."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace as replaced_fields

from superopt.ir.infer import replace
from superopt.ir.term import Term, topological
from superopt.ir.trace import Application, Rewrite, Trace
from superopt.optimizer.candidates import ModelCandidate
from superopt.search import folding_seconds
from superopt.search.apply import AppliedTrace

__all__ = ["foldable_part", "without_operator"]

_WRITABLE, _FOLDABLE = ", as far as it can be written", ", as far as the time for folding goes"


def without_operator(candidate: ModelCandidate, outputs: tuple[Term, ...], unwritable: Term) -> ModelCandidate | None:
    """Return `candidate` without the rewrites that introduce `unwritable`, or None if no rewrite does.

    `outputs` are those of the original graph. Rewrites of later passes are carried over to the graph that results;
    those that rewrite a result of the left-out ones are left out as well.
    """
    applications = (application for trace in candidate.traces for application in trace.applications)
    guilty = [application for application in applications if _introduces(application.rewrite, unwritable)]
    return _without(candidate, outputs, guilty, _WRITABLE)[0] if guilty else None


def foldable_part(
    candidate: ModelCandidate,
    outputs: tuple[Term, ...],
    gains: Mapping[Rewrite, float],
    is_affordable: Callable[[tuple[Term, ...]], bool],
) -> ModelCandidate | None:
    """Return the part of `candidate` that is worth most: the rewrites with the largest gain for a second of folding.

    As many as possible are kept such that `is_affordable(outputs)`, those of a pass only if all of the pass before are,
    because they need these. Returns None if no rewrite can be kept.
    """

    def worth(application: Application) -> float:
        after = replace(application.rewrite.after, dict(application.leaves))
        seconds = folding_seconds(after, [term for _, term in application.leaves])
        return gains.get(application.rewrite, 0.0) / seconds if seconds else math.inf

    ranked = [a for trace in candidate.traces for a in sorted(trace.applications, key=worth, reverse=True)]
    best, low, high = None, 0, len(ranked) - 1
    while low < high:  # the largest number that is affordable is at least `low`, and less than `high` + 1
        count = (low + high + 1) // 2
        part, results = _without(candidate, outputs, ranked[count:], _FOLDABLE)
        if is_affordable(results):
            best, low = part, count
        else:
            high = count - 1
    return best


def _without(
    candidate: ModelCandidate, outputs: tuple[Term, ...], guilty: Iterable[Application], suffix: str
) -> tuple[ModelCandidate, tuple[Term, ...]]:
    """Return `candidate` without the `guilty` applications, and the outputs of its graph."""
    left_out = set(guilty)
    traces: list[Trace] = []
    now: dict[Term, Term] = {}  # the term in the new graph for each term of the old one, where they differ
    was, new = outputs, outputs
    for trace in candidate.traces:
        kept = _carried_over(trace, now, left_out, new)
        before, after = AppliedTrace(was, trace, {}), AppliedTrace(new, kept, {})
        now = {
            before.became(term): after.became(counterpart)
            for term, counterpart in zip(topological(was), replace(topological(was), now), strict=True)
        }
        was, new = before.outputs, after.outputs
        if kept.applications:
            traces.append(kept)
    name = candidate.name.removesuffix(suffix) + suffix
    return replaced_fields(candidate, name=name, traces=tuple(traces)), new


def _introduces(rewrite: Rewrite, unwritable: Term) -> bool:
    """Return True if the rewrite's result has the operator with these attributes, and the region before has not."""

    def has(terms: tuple[Term, ...]) -> bool:
        return any(t.op == unwritable.op and t.attrs == unwritable.attrs for t in topological(terms))

    return has(rewrite.after) and not has(rewrite.before)


def _carried_over(trace: Trace, now: dict[Term, Term], left_out: set[Application], new: tuple[Term, ...]) -> Trace:
    """Return the applications of `trace` whose regions are in the graph `new`, without those `left_out`."""
    present, found = set(topological(new)), []
    for application in trace.applications:
        actual = replace((term for _, term in application.leaves), now)
        leaves = tuple((leaf, term) for (leaf, _), term in zip(application.leaves, actual, strict=True))
        region = replace(application.rewrite.before, dict(leaves))
        same = all(leaf.type == term.type for leaf, term in leaves)
        if application not in left_out and same and present.issuperset(region):
            found.append(Application(application.rewrite, leaves))
    return Trace(tuple(found))
