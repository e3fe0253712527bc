"""Candidates to check, in order: all rewrites that were found, then smaller and smaller parts with the largest gains.

A search works in passes, each on the result of the pass before. The regions of one pass do not overlap, so the kernel
can replay any part of a pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from superopt.ir.term import Term
from superopt.ir.trace import Rewrite, Trace
from superopt.optimizer.bodies import RewrittenBodies
from superopt.optimizer.model_search import FoundRewrites

__all__ = ["ModelCandidate", "candidates", "clean_ups"]


@dataclass(frozen=True)
class ModelCandidate:
    """A plan for a rewritten model: the passes to apply to the original, and its new bodies.

    `origin` names the rule that made a term.
    """

    name: str
    traces: tuple[Trace, ...]
    bodies: RewrittenBodies
    origin: Mapping[Term, str] = field(default_factory=dict)

    @property
    def only_folded(self) -> bool:
        """True if no rule was used, only folding (which ONNX Runtime does as well)."""
        return not (self.traces or self.bodies.traces)


def candidates(found: FoundRewrites, bodies: RewrittenBodies) -> Iterator[ModelCandidate]:
    """Yield the candidates that rewrite, the most promising first.

    First the rewritten bodies, with all other rewrites and alone; then every part of the rewrites, with bodies that are
    only folded; last all rewrites of the graph around bodies that stay as they are.
    """
    parts, folded = list(_parts(found)), RewrittenBodies(written=bodies.folded)
    if bodies.traces:
        for name, traces in parts[:1]:
            yield ModelCandidate(f"{name}, also in bodies", traces, bodies, found.origin)
        yield ModelCandidate("rewrites in bodies", (), bodies, found.origin)
    for name, traces in parts:
        yield ModelCandidate(name, traces, folded, found.origin)
    if folded.written:
        for name, traces in parts[:1]:
            yield ModelCandidate(f"{name}, and bodies as they are", traces, RewrittenBodies(), found.origin)


def clean_ups(found: FoundRewrites, bodies: RewrittenBodies, simplified: bool) -> Iterator[ModelCandidate]:
    """Yield the candidate that only folds and drops no-ops, if reading has `simplified` the model or a body."""
    if simplified or bodies.folded:
        yield ModelCandidate("folding only", (), RewrittenBodies(written=bodies.folded), found.origin)


def _parts(found: FoundRewrites) -> Iterator[tuple[str, tuple[Trace, ...]]]:
    """Yield the parts of a search's result, each with a name.

    First all passes, all but the last, and so on down to the first; then the better half of the first pass's rewrites,
    the other half (one rewrite that is slower than predicted spoils every part with it), the best quarter, and so on
    down to the best rewrite.
    """
    traces = tuple(trace for trace in found.traces if trace.applications)
    for count in range(len(traces), 0, -1):
        first = "the first" if count == 1 else f"the first {count}"
        yield "all rewrites" if count == len(traces) else f"{first} of {len(traces)} passes", traces[:count]
    if not traces:
        return
    gains: dict[Rewrite, float] = {}
    for application in traces[0].applications:
        gain = found.gains.get(application.rewrite, 0.0)
        gains[application.rewrite] = gains.get(application.rewrite, 0.0) + gain
    ranked = sorted(gains, key=lambda rewrite: -gains[rewrite])
    count = len(ranked)
    while count > 1:
        count = (count + 1) // 2
        yield f"the best {count} of {len(ranked)} rewrites", (_only(traces[0], ranked[:count]),)
        if 2 * count >= len(ranked):
            yield f"all but the best {count} of {len(ranked)} rewrites", (_only(traces[0], ranked[count:]),)


def _only(trace: Trace, rewrites: Sequence[Rewrite]) -> Trace:
    """Return the part of a trace that applies these rewrites."""
    kept = set(rewrites)
    return Trace(tuple(a for a in trace.applications if a.rewrite in kept))
