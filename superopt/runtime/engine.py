"""Sessions, runs and timings of models, as the child process makes them (`child.py`), in either runtime."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from superopt.runtime.interleaved import Runs, time_models
from superopt.runtime.loadable import OPENVINO, Loadable, NodeTime, OpenModel, Runtime
from superopt.runtime.timing import Timing

__all__ = ["LostSession", "close_sessions", "local_run", "open_session", "profile", "run", "time_pair", "version"]


class LostSession(LookupError):
    """The session was opened in a child that has ended since."""


_sessions: dict[int, OpenModel] = {}


def open_session(handle: int, loadable: Loadable, closed: Sequence[int]) -> tuple[list[str], list[str]]:
    """Close the sessions `closed`, then open one under the number `handle`; return the names of inputs and outputs.

    Raises CannotRun, RuntimeUnavailable.
    """
    close_sessions(closed)
    session = _sessions[handle] = _runtime(loadable.provider).open_model(loadable)
    return session.input_names, session.output_names


def run(handle: int, feeds: Mapping[str, Any], closed: Sequence[int]) -> list[Any]:
    """Close the sessions `closed`, then run another one; return its outputs. Raises CannotRun, LostSession."""
    close_sessions(closed)
    if handle not in _sessions:
        raise LostSession(handle)
    return _sessions[handle].run(feeds)


def close_sessions(handles: Sequence[int]) -> None:
    """Close sessions by their numbers; an unknown number does nothing."""
    for handle in handles:
        _sessions.pop(handle, None)


def local_run(loadable: Loadable) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Open a session in this process; return the function that runs it. Raises CannotRun, RuntimeUnavailable."""
    return _runtime(loadable.provider).open_model(loadable).run


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


def profile(loadable: Loadable, feeds: Mapping[str, Any], runs: int) -> list[NodeTime]:
    """Return the operators that the runtime runs, each with its least time of `runs` runs. Raises CannotRun."""
    return _runtime(loadable.provider).profile(loadable, feeds, runs)


def version(provider: str) -> str:
    """Return the version of the runtime that has `provider`. Raises RuntimeUnavailable."""
    return _runtime(provider).version()


def _runtime(provider: str) -> Runtime:
    """Return the module of the runtime that has `provider`; neither runtime is imported for the other's sake."""
    name = "openvino_runtime" if provider == OPENVINO else "onnx_runtime"
    module: Any = importlib.import_module(f"superopt.runtime.{name}")
    runtime: Runtime = module
    return runtime
