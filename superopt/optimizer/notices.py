"""Notices of a run: what the user should know of its result besides the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from superopt.optimizer.context import RunContext
from superopt.optimizer.error_bound import jumps_behind
from superopt.optimizer.options import Options
from superopt.optimizer.result import Latency, gain_is_predicted
from superopt.optimizer.selection import Selection
from superopt.wording import counted

__all__ = ["notices"]

_DEFAULTS = Options()
_NOISY = 1.1  # ratio of the ends of a wide interval
_DISAGREEMENT = 0.05  # between the ratio and the quotient of the times


def notices(context: RunContext, selection: Selection) -> Iterator[str]:
    """Yield the notices of the selection, those of its checks first."""
    options, found, changed = context.options, selection.found, selection.proto is not None
    is_gain = gain_is_predicted(found.cost_before, found.cost_after)
    yield from selection.notices
    if changed and options.target_absent and context.device is not None:
        basis = "so only the cost model says that the result is faster" if is_gain else "and no gain is predicted"
        yield f"not timed: {context.device.name} is not here, {basis}"
    behind = jumps_behind(selection.traces, selection.graphs, context.proofs.own)
    if changed and behind:
        operators = " and ".join(f"{count} {op}" for op, count in sorted(behind.items()))
        yield (
            f"no bound on rounding errors holds behind a jump: {operators} may see a value on its other side where the"
            " original's own rounding decides (--numerics exact keeps every bit)"
        )
    unused = [f"--{name}" for name in ("budget", "effort") if getattr(options, name) != getattr(_DEFAULTS, name)]
    if options.quick and unused:
        yield f"no effect with --quick: {' and '.join(unused)}"
    if changed and options.quick and is_gain:
        yield "not timed: only the cost models of all known devices say that the result is faster"
    # Default runs often end so, and say how long they may take. Nothing found, or few seconds, may be for that reason.
    if found.cost_source and not found.complete and (options.quick or not found.traces):
        more = "without --quick it has more time" if options.quick else "a longer --budget may find more"
        yield f"the search ended by its time, and had not tried everything: {more}"
    if options.quick and not changed and found.uncertified:
        verbs = "that matches here is" if found.uncertified == 1 else "that match here are"
        yield (
            f"{counted(found.uncertified, 'rule')} {verbs} not certified for these ranks and attributes, and --quick"
            " proves none anew: a run without it does, and may find more"
        )
    if selection.latency is not None:
        yield from _of_timings(selection.latency, changed)


def _of_timings(latency: Latency, changed: bool) -> Iterator[str]:
    if latency.low <= 1 <= latency.high and latency.high > _NOISY * latency.low:
        yield (
            "timings varied much here, as on a busy machine, so they do not tell which model is faster; a repeated run"
            " measures again"
        )
    elif changed and latency.few_pairs is not None:
        yield (
            f"there was time to measure the result in {latency.few_pairs} pairs of sessions only, fewer than"
            " usual: the interval of its ratio is wider"
        )
    if abs(latency.before_ms / latency.after_ms / latency.ratio - 1) > _DISAGREEMENT:
        yield (
            "the ratio is the middle of ratios of neighbouring measurements, and the times are medians of all; timings"
            " varied so much here that the two disagree"
        )
