"""The proven bound on how much larger a result's rounding errors can be than the original's, and what it leaves out.

A bound on errors says nothing of what is behind a jump: where the original computes 2.9999998 and the result 3, both
are within the bound, and their floors are 2 and 3.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable

from superopt.ir.infer import replace
from superopt.ir.term import Term, topological
from superopt.ir.trace import Rewrite, Trace
from superopt.onnx_io import Model
from superopt.properties import SIZE_READERS, jumping_operands
from superopt.search.apply import applied_steps, step_positions
from verify.proof_book import Book

__all__ = ["error_factor", "jumps_behind"]


def error_factor(traces: Iterable[Trace], book: Book) -> float | None:
    """Return a K such that the result's error bound is at most K times the original's; None if a step has no class.

    Operators of one pass that come from different operators of the original add up their errors as these did, so the
    largest factor among them counts. Passes multiply.
    """
    factor = 1.0
    for trace in traces:
        found = [_rewrite_factor(rewrite, book) for rewrite in {a.rewrite: None for a in trace.applications}]
        if math.inf in found:
            return None
        factor *= max(found, default=1.0)
    return factor


def _rewrite_factor(rewrite: Rewrite, book: Book) -> float:
    """Return the largest factor of an operator that a rewrite leaves.

    What a step makes contributes at most the step's factor times what it replaces does. A step may replace operators
    that others have made: the largest of their factors multiplies that of the step.
    """
    factors = dict.fromkeys(topological(rewrite.before), 1.0)
    for step, applied in zip(rewrite.steps, applied_steps(rewrite), strict=True):
        found = book.stability(step.rule, step.signature)
        if found.kind == "unstable":
            return math.inf
        operands = set(topological(applied.bindings.terms.values()))
        replaced = [factors[term] for term in topological(step.roots) if term not in operands]
        for old, new in applied.substitution.items():
            factors[new] = max(factors[old], factors.get(new, 1.0))
        here = float(found.factor) * max(replaced, default=1.0)
        for term in topological(applied.results):
            if term not in operands:
                factors[term] = max(here, factors.get(term, 1.0))
    return max(factors[term] for term in topological(rewrite.after))


def jumps_behind(traces: Iterable[Trace], graphs: Iterable[Model], book: Book) -> Counter[str]:
    """Count the first operators behind rewritten values that jump, by name: floors, comparisons, casts to integers.

    `graphs` has the graph before each pass. Steps that are exact change no value.
    """
    found: Counter[str] = Counter()
    places = functools.cache(lambda rewrite: _rounded_places(rewrite, book))  # many applications share a rewrite
    for trace, graph in zip(traces, graphs, strict=True):
        rounded: set[Term | None] = set()  # values that are rounded otherwise after this pass
        for application in trace.applications:
            rounded.update(replace(places(application.rewrite), dict(application.leaves)))
        for term in topological(graph.outputs):
            if term in rounded or rounded.isdisjoint(term.inputs) or term.op in SIZE_READERS:
                continue
            if not rounded.isdisjoint(jumping_operands(term)):
                found[term.op] += 1
            else:
                rounded.add(term)
    return found


def _rounded_places(rewrite: Rewrite, book: Book) -> list[Term]:
    """Return the terms of the region, as it was, at which steps are applied that are not exact."""
    steps = zip(rewrite.steps, step_positions(rewrite), strict=True)
    return [term for step, at in steps if book.stability(step.rule, step.signature).kind != "exact" for term in at]
