"""Measurement in a runtime: sessions on one provider, random inputs, comparison of outputs, interleaved timing.

The runtimes are ONNX Runtime (`onnx_runtime.py`) and OpenVINO (`openvino_runtime.py`), behind one interface
(`loadable.py`). They run in a child process (`child.py`): what they do to it costs one run or one timing.
"""

from superopt.runtime.accuracy import compare_accuracy, explained, largest_error
from superopt.runtime.child import interrupt as interrupt_child
from superopt.runtime.child import start as start_child
from superopt.runtime.compare import (
    Mask,
    OutputComparison,
    Tolerance,
    calibrate,
    compare,
    finite_share,
    flat,
    identical,
    is_float,
    smallest_normal,
    unit_roundoff,
    worst_of,
)
from superopt.runtime.feeds import Feeds, feed_candidates, with_specials
from superopt.runtime.interleaved import time_contest, time_interleaved, time_models, time_once
from superopt.runtime.measure import TimedModel, reference_time, sample_times, time_over_inputs, time_pair
from superopt.runtime.profile import profile
from superopt.runtime.sessions import (
    EXECUTION_PROVIDERS,
    LARGE_BYTES,
    RUNTIMES,
    RunnableModel,
    Session,
    attribute_defaults,
    close_unused,
    in_child,
    loadable,
    open_session,
    resolve_target,
    versions,
)
from superopt.runtime.shapes import (
    GivenShape,
    InputError,
    InputShapes,
    InputSpec,
    SizeRange,
    Unfeedable,
    check_given,
    input_specs,
    parse_shape,
    shape_problem,
    show_shape,
)
from superopt.runtime.target import CannotRun, RanTooLong, RuntimeUnavailable, Target, lacks_operator
from superopt.runtime.timing import Standing, Timing

__all__ = [
    "EXECUTION_PROVIDERS",
    "LARGE_BYTES",
    "RUNTIMES",
    "CannotRun",
    "Feeds",
    "GivenShape",
    "InputError",
    "InputShapes",
    "InputSpec",
    "Mask",
    "OutputComparison",
    "RanTooLong",
    "RunnableModel",
    "RuntimeUnavailable",
    "Session",
    "SizeRange",
    "Standing",
    "Target",
    "TimedModel",
    "Timing",
    "Tolerance",
    "Unfeedable",
    "attribute_defaults",
    "calibrate",
    "check_given",
    "close_unused",
    "compare",
    "compare_accuracy",
    "explained",
    "feed_candidates",
    "finite_share",
    "flat",
    "identical",
    "in_child",
    "input_specs",
    "is_float",
    "interrupt_child",
    "lacks_operator",
    "largest_error",
    "loadable",
    "open_session",
    "parse_shape",
    "profile",
    "reference_time",
    "resolve_target",
    "sample_times",
    "shape_problem",
    "show_shape",
    "start_child",
    "time_contest",
    "time_interleaved",
    "time_models",
    "time_once",
    "time_over_inputs",
    "time_pair",
    "smallest_normal",
    "unit_roundoff",
    "versions",
    "with_specials",
    "worst_of",
]
