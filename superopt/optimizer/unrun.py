"""An original that cannot be run here: what would help, and the sizes to assume where costs need no run."""

from __future__ import annotations

from superopt.optimizer.input_sizes import InputSizes
from superopt.optimizer.measured_sizes import DoesNotFit
from superopt.optimizer.options import Options
from superopt.optimizer.original import TooManyNodes, open_original
from superopt.optimizer.source import Source
from superopt.runtime import CannotRun, InputShapes, RanTooLong, Target, Unfeedable, input_specs, lacks_operator

__all__ = ["advice", "assumed_shapes", "loads"]

_SMALL, _LARGE = 1, 32  # assumed for sizes that are not given


def loads(source: Source, target: Target) -> bool:
    """Return True if the runtime loads the model; then it only refuses the inputs that were tried."""
    try:
        open_original(source, target)
    except CannotRun:
        return False
    return True


def advice(error: CannotRun | Unfeedable, source: Source, *, is_loaded: bool) -> str:
    """Return the options with which the model may run, as the end of a message; empty if there is none."""
    graph = source.proto.graph
    if isinstance(error, RanTooLong | DoesNotFit):
        return "; --shape may give smaller sizes"
    if isinstance(error, Unfeedable | TooManyNodes):
        return ""
    if lacks_operator(error):
        return "; another --ep or --target may have its operators"
    if is_loaded and graph.input and graph.output:
        return "; --inputs FILE.npz gives values that it takes, --shape other sizes"
    return ""


def assumed_shapes(source: Source, options: Options) -> list[InputShapes]:
    """Return small and large shapes for the costs of a model that is not run; none if its inputs are no tensors."""
    try:
        sizes = InputSizes(input_specs(source.proto), options.shapes)
    except Unfeedable:
        return []
    low = {**{d: ends.low for d, ends in sizes.ranges.items()}, **dict.fromkeys(sizes.open, _SMALL)}
    high = {**{d: ends.high for d, ends in sizes.ranges.items()}, **dict.fromkeys(sizes.open, _LARGE)}
    return [sizes.shapes(low)] if low == high else [sizes.shapes(low), sizes.shapes(high)]
