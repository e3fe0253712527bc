"""ONNX Runtime itself: sessions, runs and timings, as the child process makes them (`child.py`).

ONNX Runtime is imported here, on first use, and nowhere else. Only the child uses it, and the backend for PyTorch,
which runs results in the caller's process.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

from superopt.files import ROOT
from superopt.runtime.child_main import lift_memory_limit
from superopt.runtime.installed import check_found, check_usable, with_advice
from superopt.runtime.target import CannotRun, RuntimeUnavailable
from superopt.runtime.timing import Runs, Timing, time_models

__all__ = [
    "TENSORRT",
    "Loadable",
    "LostSession",
    "available_providers",
    "close_sessions",
    "local_run",
    "local_session",
    "open_session",
    "run",
    "time_pair",
    "version",
    "write_optimized",
]

CPU, CUDA, TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"

_LEVELS = {"all": "ORT_ENABLE_ALL", "none": "ORT_DISABLE_ALL"}
_SILENT = 4  # ONNX Runtime's log severity "fatal": failures are raised, and must not be logged as well
# Parts of ONNX Runtime's messages about a failed allocation.
_ALLOCATION_ERRORS = ("bad_alloc", "Failed to allocate memory", "bad allocation")


class LostSession(LookupError):
    """The session was opened in a child that has ended since."""


@dataclass(frozen=True)
class Loadable:
    """A model, as its bytes or its absolute path, and how to open it.

    `provider` is ONNX Runtime's name of the execution provider. `level` is "all" for all of ONNX Runtime's
    optimizations, "none" for none of them, "any" for all, or none if the model does not load with them. `rooted`: the
    model names the files of its weights relative to the root of the file system, not to its own folder.
    """

    model: bytes | str
    provider: str
    threads: int
    level: str = "all"
    rooted: bool = False


_sessions: dict[int, Any] = {}


def open_session(handle: int, loadable: Loadable, closed: Sequence[int]) -> tuple[list[str], list[str]]:
    """Close the sessions `closed`, then open one under the number `handle`; return the names of inputs and outputs.

    Raises CannotRun, RuntimeUnavailable.
    """
    close_sessions(closed)
    session = _sessions[handle] = _opened(loadable)
    return [i.name for i in session.get_inputs()], [o.name for o in session.get_outputs()]


def run(handle: int, feeds: Mapping[str, Any], closed: Sequence[int]) -> list[Any]:
    """Close the sessions `closed`, then run another one; return its outputs. Raises CannotRun, LostSession."""
    close_sessions(closed)
    if handle not in _sessions:
        raise LostSession(handle)
    return _run(_sessions[handle], feeds)


def close_sessions(handles: Sequence[int]) -> None:
    """Close sessions by their numbers; an unknown number does nothing."""
    for handle in handles:
        _sessions.pop(handle, None)


def local_run(loadable: Loadable) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Open a session in this process; return the function that runs it. Raises CannotRun, RuntimeUnavailable."""
    return partial(_run, _opened(loadable))


def local_session(loadable: Loadable) -> Any:
    """Open a session in this process and return it. Raises CannotRun, RuntimeUnavailable."""
    return _opened(loadable)


def write_optimized(model: str, out: str, level: str) -> None:
    """Write what ONNX Runtime's optimizer makes of a file at the level "BASIC" or "EXTENDED" for CPUs; run nothing.

    Raises CannotRun.
    """
    ort = _onnxruntime()
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.optimized_model_filepath = out
    options.log_severity_level = _SILENT
    try:
        ort.InferenceSession(model, options, providers=[CPU])
    except Exception as error:  # as below
        raise CannotRun(_reason(error)) from error


def time_pair(
    before: tuple[Loadable, Sequence[Mapping[str, Any]]],
    after: tuple[Loadable, Sequence[Mapping[str, Any]]],
    budget_s: float,
    cpu_clock: bool,
    sample_s: float,
    until_decided: bool,
    apart: bool,
) -> list[Timing]:
    """Time two models, each on its own inputs, in fresh pairs of sessions (`time_models`). Raises CannotRun."""

    def maker(loadable: Loadable, inputs: Sequence[Mapping[str, Any]]) -> Callable[[], Runs]:
        def make() -> Runs:
            run = local_run(loadable)
            return [partial(run, feeds) for feeds in inputs]

        return make

    return time_models(
        maker(*before),
        maker(*after),
        budget_s=budget_s,
        cpu_clock=cpu_clock,
        sample_s=sample_s,
        until_decided=until_decided,
        apart=apart,
    )


def version() -> str:
    """Return the version of ONNX Runtime. Raises RuntimeUnavailable."""
    return str(_onnxruntime().__version__)


def available_providers() -> list[str]:
    """Return the execution providers that the installed ONNX Runtime was built with. Raises RuntimeUnavailable."""
    return list(_onnxruntime().get_available_providers())


@functools.cache
def _onnxruntime() -> ModuleType:
    """Return the module. Raises RuntimeUnavailable."""
    check_found()
    try:
        import onnxruntime
    except ImportError as error:
        raise RuntimeUnavailable(with_advice(f"ONNX Runtime cannot be imported ({_reason(error)})")) from error
    module: ModuleType = onnxruntime
    check_usable(module)
    return module


def _opened(loadable: Loadable) -> Any:
    if loadable.level != "any":
        return _opened_at(loadable)
    try:
        return _opened_at(replace(loadable, level="all"))
    except CannotRun:  # ONNX Runtime's optimizer breaks some models
        return _opened_at(replace(loadable, level="none"))


def _opened_at(loadable: Loadable) -> Any:
    """Open a session on exactly the requested provider: ONNX Runtime falls back to the CPU silently."""
    ort, wanted = _onnxruntime(), loadable.provider
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[loadable.level])
    options.intra_op_num_threads = loadable.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    # Idle threads of one session must not occupy the cores while another session is timed.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if loadable.rooted:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(ROOT))
    if wanted != CPU:
        _preload(ort)
    try:
        session = ort.InferenceSession(loadable.model, options, providers=_with_fallback(wanted))
    except Exception as error:  # ONNX Runtime's exceptions share no other base class
        raise CannotRun(_reason(error)) from error
    if wanted not in session.get_providers():
        raise RuntimeUnavailable(f"{wanted} was requested; ONNX Runtime fell back to {session.get_providers()}")
    return session


def _run(session: Any, feeds: Mapping[str, Any]) -> list[Any]:
    try:
        return list(session.run(None, feeds))
    except Exception as error:  # as above
        raise CannotRun(_reason(error)) from error


def _with_fallback(wanted: str) -> list[str]:
    # Operators that a provider lacks run on the next one, as they will for the user; the session must still have it.
    order = [TENSORRT, CUDA, CPU]
    return order[order.index(wanted) :] if wanted in order else [wanted, CPU]


def _preload(ort: ModuleType) -> None:
    # CUDA and cuDNN installed by pip are not on the loader's path. ONNX Runtime would report each missing library on
    # both streams; here that is one exception.
    lift_memory_limit()  # the driver maps far more than it uses
    ort.set_default_logger_severity(_SILENT)
    with contextlib.redirect_stdout(io.StringIO()):
        ort.preload_dlls()


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MemoryError) or any(part in text for part in _ALLOCATION_ERRORS):
        return f"it needs more memory than is available here ({text})"
    return text
