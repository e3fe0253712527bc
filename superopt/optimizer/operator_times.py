"""Times of operators before and after, for the page on a run: the runtime profiles the original and the result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from superopt.onnx_io.load import load_proto
from superopt.optimizer.input_data import load_inputs
from superopt.optimizer.options import Options
from superopt.optimizer.result import OperatorTime, Result
from superopt.runtime import CannotRun, Feeds, Target, Unfeedable, feed_candidates, input_specs, profile
from superopt.runtime.loadable import NodeTime

__all__ = ["operator_times"]

_RUNS = 10


def operator_times(original: Path, result: Result, options: Options) -> list[OperatorTime]:
    """Return the times of each type of operator, the longest first, at the smallest size that was measured.

    Empty if nothing was written or measured, or if the runtime has no times of one of the models.
    """
    if not result.changed or result.out is None or options.in_place or not (result.latency and result.latency.sizes):
        return []
    target, shapes = Target(result.provider, result.threads), result.latency.sizes[0].shapes
    try:
        specs = input_specs(load_proto(original))
        given = load_inputs(options.inputs[0], specs) if options.inputs else Feeds()
        for drawn in feed_candidates(specs, shapes, options.seed, 0):
            feeds = {**drawn, **given}
            try:
                before = profile(original, feeds, target, _RUNS)
            except CannotRun:  # the original accepts other values
                continue
            return _by_operator(before, profile(Path(result.out), feeds, target, _RUNS))
    except (CannotRun, Unfeedable):
        pass
    return []


def _by_operator(before: Sequence[NodeTime], after: Sequence[NodeTime]) -> list[OperatorTime]:
    found = []
    for operator in dict.fromkeys(node.operator for node in (*before, *after)):
        old, new = ([node.seconds * 1e3 for node in nodes if node.operator == operator] for nodes in (before, after))
        found.append(OperatorTime(operator, len(old), len(new), round(sum(old), 6), round(sum(new), 6)))
    return sorted(found, key=lambda one: -max(one.before_ms, one.after_ms))
