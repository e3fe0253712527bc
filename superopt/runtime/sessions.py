"""Sessions of the requested runtime, on exactly the requested execution provider, in a child process.

A crash, an endless run or a lack of memory in a runtime is a CannotRun here, as any other failure of a model.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import onnx

from superopt.choices import EXECUTION_PROVIDERS, RUNTIMES
from superopt.runtime import child, engine, onnx_runtime
from superopt.runtime.engine import LostSession
from superopt.runtime.installed import MODULE, OPENVINO, check_found, with_advice
from superopt.runtime.loadable import CPU, CUDA, Loadable
from superopt.runtime.loadable import OPENVINO as OPENVINO_PROVIDER
from superopt.runtime.target import CannotRun, RanTooLong, RuntimeUnavailable, Target
from superopt.temporary import temporary_folder

__all__ = [
    "EXECUTION_PROVIDERS",
    "LARGE_BYTES",
    "RUNTIMES",
    "Loadable",
    "RunnableModel",
    "Session",
    "attribute_defaults",
    "close_unused",
    "in_child",
    "loadable",
    "open_session",
    "resolve_target",
    "versions",
]

RunnableModel: TypeAlias = "onnx.ModelProto | bytes | str | Path"
R = TypeVar("R")

_PROVIDERS = {"cpu": CPU, "cuda": CUDA, "openvino": OPENVINO_PROVIDER}

# Limits of wall time. A model with longer runs cannot be measured in a time that anybody would wait for.
_OPEN_SECONDS = 600.0
_RUN_SECONDS = 60.0
LARGE_BYTES = 1 << 30  # of weights; one session of such models is open at a time, for lack of memory and of time
_MAX_INLINE_BYTES = 1 << 24  # a larger model goes to the child as a temporary file


class Session:
    """A model loaded in the child. `run` takes and returns arrays; sequences are lists, as in ONNX Runtime."""

    def __init__(self, model: Loadable) -> None:
        self._model = model
        self._handle = next(_handles)
        self.input_names: list[str] = []
        self.output_names: list[str] = []
        self._open()
        weakref.finalize(self, _closed.append, self._handle).atexit = False

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model and return all outputs. Raises CannotRun."""
        try:
            return self._run(feeds)
        except LostSession:
            self._open()
            return self._run(feeds)

    def _open(self) -> None:
        names = in_child(engine.open_session, self._handle, self._model, _take_closed(), limit_s=_OPEN_SECONDS)
        self.input_names, self.output_names = names

    def _run(self, feeds: Mapping[str, Any]) -> list[Any]:
        return in_child(engine.run, self._handle, dict(feeds), _take_closed(), limit_s=_RUN_SECONDS)


_handles = itertools.count()
_closed: list[int] = []  # handles of sessions that are garbage here and still open in the child


def _take_closed() -> list[int]:
    return [_closed.pop() for _ in range(len(_closed))]


def close_unused() -> None:
    """Close the sessions in the child that nobody refers to any more, which frees their memory."""
    if _closed:
        with contextlib.suppress(CannotRun):
            in_child(engine.close_sessions, _take_closed(), limit_s=_RUN_SECONDS)


def open_session(model: RunnableModel, target: Target, *, level: str = "all") -> Session:
    """Open a session with all of ONNX Runtime's optimizations (`level="all"`) or none of them (`"none"`).

    `model` is a proto, its bytes, or a file. A proto names files of weights relative to the root of the file system.
    OpenVINO has one level. Raises CannotRun if the runtime does not load it, RuntimeUnavailable if the provider fell
    back.
    """
    with contextlib.ExitStack() as files:
        session = Session(files.enter_context(loadable(model, target, level)))
        weakref.finalize(session, files.pop_all().close)
    return session


@contextlib.contextmanager
def loadable(model: RunnableModel, target: Target, level: str = "all") -> Iterator[Loadable]:
    """Yield `model` in the form that goes to the child; a large one is in a temporary file meanwhile."""
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString()
    options = (_PROVIDERS[target.provider], target.threads, level)
    if isinstance(model, bytes) and len(model) > _MAX_INLINE_BYTES:
        with temporary_folder() as folder:
            path = folder / "model.onnx"
            path.write_bytes(model)
            yield Loadable(str(path), *options, rooted=True, tf32=target.tf32)
    elif isinstance(model, bytes):
        yield Loadable(model, *options, rooted=True, tf32=target.tf32)
    else:
        yield Loadable(str(Path(model).absolute()), *options, tf32=target.tf32)


def in_child(function: Callable[..., R], *arguments: Any, limit_s: float) -> R:
    """Run `function(*arguments)` in the child within `limit_s` seconds of wall time; return its value.

    A failure of the child is a CannotRun. Raises what the function raises.
    """
    try:
        return child.call(function, *arguments, limit_s=limit_s)
    except child.DidNotEnd as error:
        raise RanTooLong(str(error)) from error
    except child.ChildFailed as error:
        raise CannotRun(str(error)) from error
    except MemoryError as error:
        raise CannotRun("it needs more memory than is available here") from error


def resolve_target(ep: str = "auto", threads: int | None = None, runtime: str = MODULE) -> Target:
    """Return the target for `ep`, one of EXECUTION_PROVIDERS, in `runtime`, one of RUNTIMES.

    `auto` is CUDA if it works, else the CPU; OpenVINO runs on the CPU.

    The default is one thread: then latencies are steady, and CPU time excludes the noise of other processes.
    Raises RuntimeUnavailable if the runtime is not installed, or if CUDA is requested and does not work; ValueError for
    an unknown name.
    """
    if ep not in EXECUTION_PROVIDERS:
        raise ValueError(f"unknown execution provider {ep!r} ({', '.join(EXECUTION_PROVIDERS)})")
    if threads is not None and threads < 0:
        raise ValueError(f"threads must not be negative, not {threads}")
    check_found(runtime)
    count = 1 if threads is None else threads
    if runtime == OPENVINO:
        return Target("openvino", count)
    if ep == "cpu":
        return Target("cpu", count)
    try:
        _check_cuda()
    except RuntimeUnavailable:
        if ep == "cuda":
            raise
        return Target("cpu", count)
    return Target("cuda", count)


def versions(provider: str = "cpu") -> dict[str, str]:
    """Return the versions of the packages that a measurement on `provider` depends on. Raises RuntimeUnavailable."""
    runtime = OPENVINO if provider == "openvino" else MODULE
    return {runtime: _runtime_version(_PROVIDERS[provider]), "onnx": onnx.__version__, "numpy": np.__version__}


@functools.cache
def _runtime_version(provider: str) -> str:
    return _of_runtime(functools.partial(engine.version, provider))


@functools.cache
def attribute_defaults() -> Mapping[str, list[bytes]]:
    """Return the defaults of attributes of ONNX Runtime's own operators; none if it cannot be used."""
    try:
        return _of_runtime(onnx_runtime.attribute_defaults)
    except RuntimeUnavailable:
        return {}


def _of_runtime(function: Callable[[], R]) -> R:
    """Ask a runtime about itself. Raises RuntimeUnavailable if it cannot be used."""
    try:
        return in_child(function, limit_s=_OPEN_SECONDS)
    except CannotRun as error:
        raise RuntimeUnavailable(f"the runtime cannot be used here: {error}") from error


def _check_cuda() -> None:
    """Open a session with one operator on CUDA. Raises RuntimeUnavailable with the reason."""
    if _PROVIDERS["cuda"] not in _of_runtime(onnx_runtime.available_providers):
        problem = f"CUDA was requested, but the installed ONNX Runtime {_runtime_version(CUDA)} is built without it"
        raise RuntimeUnavailable(with_advice(problem, "cuda"))
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
