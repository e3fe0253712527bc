"""The proven bound on how much larger a result's rounding errors can be than the original's."""

from __future__ import annotations

import math
from collections.abc import Iterable

from superopt.ir.trace import Rewrite, Trace
from verify.proof_book import Book

__all__ = ["error_factor"]


def error_factor(traces: Iterable[Trace], book: Book) -> float | None:
    """Return a K such that the result's error bound is at most K times the original's; None if a step has no class.

    A step multiplies the errors that its region contributes by its factor at most. So the steps of one region count
    together, regions of one pass count once, the largest, and passes count together.
    """
    factor = 1.0
    for trace in traces:
        found = [_region_factor(rewrite, book) for rewrite in {a.rewrite: None for a in trace.applications}]
        if math.inf in found:
            return None
        factor *= max(found, default=1.0)
    return factor


def _region_factor(rewrite: Rewrite, book: Book) -> float:
    classes = [book.stability(step.rule, step.signature) for step in rewrite.steps]
    if any(one.kind == "unstable" for one in classes):
        return math.inf
    return math.prod(float(one.factor) for one in classes)
