"""ONNX Runtime sessions on exactly the requested execution provider.

ONNX Runtime falls back to the CPU silently when a provider cannot be loaded; here that is an error.
"""

from __future__ import annotations

import contextlib
import io
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

__all__ = [
    "EXECUTION_PROVIDERS",
    "CannotRun",
    "RuntimeUnavailable",
    "Session",
    "Target",
    "open_session",
    "resolve_target",
    "versions",
]

_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
EXECUTION_PROVIDERS = ("auto", *_PROVIDERS)  # values of `ep`
_LEVELS = {
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}
_SILENT = 4  # ONNX Runtime's log severity "fatal": failures are raised, and must not be logged as well


class RuntimeUnavailable(RuntimeError):
    """The requested execution provider cannot be used on this machine."""


class CannotRun(RuntimeError):
    """ONNX Runtime does not load the model, or fails on given inputs; the message is one line."""


@dataclass(frozen=True)
class Target:
    """Execution provider, `cpu` or `cuda`, and number of threads (0: ONNX Runtime's own choice)."""

    provider: str = "cpu"
    threads: int = 1

    @property
    def key(self) -> str:
        """Provider, threads, runtime version and machine, as a key for stored measurements."""
        return f"{self.provider}/{self.threads}/onnxruntime-{ort.__version__}/{platform.machine()}"

    @property
    def cpu_clock(self) -> bool:
        """True if CPU time measures a run, because one thread does all its work."""
        return self.provider == "cpu" and self.threads == 1

    @property
    def clock(self) -> str:
        """The clock that times a run: "cpu" or "wall"."""
        return "cpu" if self.cpu_clock else "wall"


class Session:
    """A loaded model. `run` takes and returns arrays; sequences are lists, as in ONNX Runtime."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.input_names: list[str] = [i.name for i in session.get_inputs()]
        self.output_names: list[str] = [o.name for o in session.get_outputs()]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model and return all outputs. Raises CannotRun."""
        try:
            return list(self._session.run(None, feeds))
        except Exception as error:  # ONNX Runtime's exceptions share no other base class
            raise CannotRun(_one_line(error)) from error


def resolve_target(ep: str = "auto", threads: int | None = None) -> Target:
    """Return the target for `ep`, one of EXECUTION_PROVIDERS; `auto` is CUDA if it works, else the CPU.

    The default is one thread: then latencies are steady, and CPU time excludes the noise of other processes.
    Raises RuntimeUnavailable if CUDA is requested and does not work, ValueError for an unknown name.
    """
    if ep not in EXECUTION_PROVIDERS:
        raise ValueError(f"unknown execution provider {ep!r} ({', '.join(EXECUTION_PROVIDERS)})")
    if threads is not None and threads < 0:
        raise ValueError(f"threads must not be negative, not {threads}")
    count = 1 if threads is None else threads
    if ep == "cpu":
        return Target("cpu", count)
    try:
        _check_cuda()
    except RuntimeUnavailable:
        if ep == "cuda":
            raise
        return Target("cpu", count)
    return Target("cuda", count)


def open_session(model: onnx.ModelProto | bytes | str | Path, target: Target, *, level: str = "all") -> Session:
    """Open a session with all of ONNX Runtime's optimizations (`level="all"`) or none of them (`"none"`).

    `model` is a proto, its bytes, or a file (required if weights are in a separate file). Raises CannotRun if ONNX
    Runtime does not load it, RuntimeUnavailable if the provider fell back.
    """
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString()
    options = ort.SessionOptions()
    options.graph_optimization_level = _LEVELS[level]
    options.intra_op_num_threads = target.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = _SILENT
    # Idle threads of one session must not occupy the cores while another session is timed.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    wanted = _PROVIDERS[target.provider]
    if target.provider == "cuda":
        _preload()
    try:
        session = ort.InferenceSession(
            str(model) if isinstance(model, Path) else model, options, providers=_with_fallback(wanted)
        )
    except Exception as error:  # as above
        raise CannotRun(_one_line(error)) from error
    if wanted not in session.get_providers():
        raise RuntimeUnavailable(f"{wanted} was requested; ONNX Runtime fell back to {session.get_providers()}")
    return Session(session)


def versions() -> dict[str, str]:
    """Return the versions of the packages that a measurement depends on."""
    return {"onnxruntime": ort.__version__, "onnx": onnx.__version__, "numpy": np.__version__}


def _with_fallback(wanted: str) -> Sequence[str]:
    # Operators that CUDA lacks run on the CPU, as they will for the user; the session must still have CUDA.
    return [wanted] if wanted == "CPUExecutionProvider" else [wanted, "CPUExecutionProvider"]


def _preload() -> None:
    # CUDA and cuDNN installed by pip are not on the loader's path. ONNX Runtime would report each missing library on
    # both streams; here that is one exception.
    ort.set_default_logger_severity(_SILENT)
    with contextlib.redirect_stdout(io.StringIO()):
        ort.preload_dlls()


def _check_cuda() -> None:
    """Open a session with one operator on CUDA. Raises RuntimeUnavailable with the reason."""
    if _PROVIDERS["cuda"] not in ort.get_available_providers():
        raise RuntimeUnavailable(
            f"CUDA was requested, but the installed ONNX Runtime {ort.__version__} is built without it"
            " (pip install onnxruntime-gpu)"
        )
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1]) for n in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "probe", [x], [y])
    probe = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    try:
        open_session(probe, Target("cuda")).run({"x": np.zeros(1, np.float32)})
    except (RuntimeUnavailable, CannotRun) as error:
        raise RuntimeUnavailable(
            "CUDA was requested, but ONNX Runtime cannot use it here: no GPU, or its CUDA libraries are not found"
            " (pip install 'superopt[cuda]')"
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
