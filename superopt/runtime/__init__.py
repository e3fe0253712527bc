"""Measurement with ONNX Runtime: sessions on one provider, random inputs, comparison of outputs, interleaved timing."""

from superopt.runtime.compare import (
    OutputComparison,
    Tolerance,
    calibrate,
    compare,
    identical,
    worst_of,
)
from superopt.runtime.feeds import (
    Feeds,
    InputError,
    InputSpec,
    Unfeedable,
    feed_candidates,
    fix_shapes,
    input_specs,
    parse_shape,
    with_specials,
)
from superopt.runtime.sessions import (
    EXECUTION_PROVIDERS,
    CannotRun,
    RuntimeUnavailable,
    Session,
    Target,
    open_session,
    resolve_target,
    versions,
)
from superopt.runtime.timing import Standing, Timing, time_contest, time_interleaved, time_models, time_once

__all__ = [
    "EXECUTION_PROVIDERS",
    "CannotRun",
    "Feeds",
    "InputError",
    "InputSpec",
    "OutputComparison",
    "RuntimeUnavailable",
    "Session",
    "Standing",
    "Target",
    "Timing",
    "Tolerance",
    "Unfeedable",
    "calibrate",
    "compare",
    "feed_candidates",
    "fix_shapes",
    "identical",
    "input_specs",
    "open_session",
    "parse_shape",
    "resolve_target",
    "time_contest",
    "time_interleaved",
    "time_models",
    "time_once",
    "versions",
    "with_specials",
    "worst_of",
]
