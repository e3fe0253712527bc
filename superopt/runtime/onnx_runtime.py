"""ONNX Runtime itself, imported here on first use and nowhere else.

Only the child process uses it, and the backend for PyTorch, which runs results in the caller's process.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from superopt.files import ROOT
from superopt.runtime.child_main import lift_memory_limit
from superopt.runtime.installed import check_found, check_usable, with_advice
from superopt.runtime.loadable import CPU, CUDA, TENSORRT, Loadable, NodeTime
from superopt.runtime.target import CannotRun, RuntimeUnavailable, reason
from superopt.temporary import temporary_folder

__all__ = [
    "attribute_defaults",
    "available_providers",
    "local_session",
    "open_model",
    "profile",
    "version",
    "write_optimized",
]

_LEVELS = {"all": "ORT_ENABLE_ALL", "none": "ORT_DISABLE_ALL"}
_SILENT = 4  # ONNX Runtime's log severity "fatal": failures are raised, and must not be logged as well


class _Session:
    """A session of ONNX Runtime."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.input_names: list[str] = [value.name for value in session.get_inputs()]
        self.output_names: list[str] = [value.name for value in session.get_outputs()]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model and return all outputs. Raises CannotRun."""
        try:
            return list(self.session.run(None, feeds))
        except Exception as error:  # ONNX Runtime's exceptions share no other base class
            raise CannotRun(reason(error)) from error


def open_model(loadable: Loadable) -> _Session:
    """Open a session on exactly the requested provider. Raises CannotRun, RuntimeUnavailable."""
    if loadable.level != "any":
        return _opened_at(loadable)
    try:
        return _opened_at(replace(loadable, level="all"))
    except CannotRun:  # ONNX Runtime's optimizer breaks some models
        return _opened_at(replace(loadable, level="none"))


def local_session(loadable: Loadable) -> Any:
    """Open a session in this process and return ONNX Runtime's own object. Raises CannotRun, RuntimeUnavailable."""
    return open_model(loadable).session


def profile(loadable: Loadable, feeds: Mapping[str, Any], runs: int) -> list[NodeTime]:
    """Return the operators that run, each with its least time of `runs` runs. Raises CannotRun."""
    with temporary_folder() as folder:
        model = _opened_at(loadable, profile_prefix=str(folder / "profile"))
        for _ in range(runs):
            model.run(feeds)
        events = json.loads(Path(model.session.end_profiling()).read_text(encoding="utf-8"))
    least: dict[str, NodeTime] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            node = NodeTime(event["name"].removesuffix("_kernel_time"), event["args"]["op_name"], event["dur"] * 1e-6)
            least[node.name] = min(node, least.get(node.name, node), key=lambda one: one.seconds)
    return list(least.values())


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
        raise CannotRun(reason(error)) from error


def version() -> str:
    """Return the version of ONNX Runtime. Raises RuntimeUnavailable."""
    return str(_onnxruntime().__version__)


def attribute_defaults() -> dict[str, list[bytes]]:
    """Return the defaults of attributes, as protobufs, of the operators outside ONNX's domains (`domain::operator`).

    Raises RuntimeUnavailable.
    """
    _onnxruntime()
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    found: dict[str, list[bytes]] = {}
    for schema in get_all_operator_schema():
        if schema.domain and not schema.domain.startswith("ai.onnx"):
            defaults = [bytes(attribute._default_value) for attribute in schema.attributes.values()]
            found[f"{schema.domain}::{schema.name}"] = [default for default in defaults if default]
    return found


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
        raise RuntimeUnavailable(with_advice(f"ONNX Runtime cannot be imported ({reason(error)})")) from error
    module: ModuleType = onnxruntime
    check_usable(module)
    return module


def _opened_at(loadable: Loadable, profile_prefix: str = "") -> _Session:
    """Open a session on exactly the requested provider: ONNX Runtime falls back to the CPU silently."""
    ort, wanted = _onnxruntime(), loadable.provider
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[loadable.level])
    options.intra_op_num_threads = loadable.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    if profile_prefix:
        options.enable_profiling, options.profile_file_prefix = True, profile_prefix
    # Idle threads of one session must not occupy the cores while another session is timed.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if loadable.rooted:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(ROOT))
    if wanted != CPU:
        _preload(ort)
    try:
        session = ort.InferenceSession(loadable.model, options, providers=_with_fallback(loadable))
    except Exception as error:  # as above
        raise CannotRun(reason(error)) from error
    if wanted not in session.get_providers():
        raise RuntimeUnavailable(f"{wanted} was requested; ONNX Runtime fell back to {session.get_providers()}")
    return _Session(session)


def _with_fallback(loadable: Loadable) -> list[str | tuple[str, dict[str, str]]]:
    # Operators that a provider lacks run on the next one, as they will for the user; the session must still have it.
    order = [TENSORRT, CUDA, CPU]
    names = order[order.index(loadable.provider) :] if loadable.provider in order else [loadable.provider, CPU]
    return [(name, {"use_tf32": "0"}) if name == CUDA and not loadable.tf32 else name for name in names]


def _preload(ort: ModuleType) -> None:
    # CUDA and cuDNN installed by pip are not on the loader's path. ONNX Runtime would report each missing library on
    # both streams; here that is one exception.
    lift_memory_limit()  # the driver maps far more than it uses
    ort.set_default_logger_severity(_SILENT)
    with contextlib.redirect_stdout(io.StringIO()):
        ort.preload_dlls()
