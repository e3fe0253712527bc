"""Streams, one-line errors, and progress that appears only where there is something to wait for."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn, ParamSpec, TypeVar

from rich.console import Console

from superopt.onnx_io import ModelError
from superopt.rulebook.loading import RulesError
from superopt.runtime import InputError, RuntimeUnavailable
from verify.diagnose.second_opinion import SecondSolverMissing

__all__ = ["NEGATIVE", "UNUSABLE", "Progress", "errors", "one_line_errors", "results"]

NEGATIVE, UNUSABLE = 1, 2

# Least seconds between two lines of the same phase (what stands before the colon).
_SAME_PHASE_S = 5.0

# What a user can cause; anything else is a fault of the program and keeps its traceback.
_EXPECTED = (ModelError, RulesError, RuntimeUnavailable, SecondSolverMissing, InputError, OSError)

P = ParamSpec("P")
R = TypeVar("R")


def results() -> Console:
    """Results. Colour only on a terminal and without NO_COLOR (rich sees to it); lines are never cut."""
    return Console(soft_wrap=True, highlight=False)


def errors() -> Console:
    """Progress, notices and errors."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


def fail(message: str) -> NoReturn:
    """One line on stderr, exit code 2."""
    print("error: " + " ".join(message.split()), file=sys.stderr)  # noqa: T201 - not through rich: no markup, no style
    raise SystemExit(UNUSABLE)


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turns errors that a user can cause into one line and exit code 2."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except _EXPECTED as error:
            fail(_text(error))

    return run


def _text(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


class Progress:
    """Says on stderr what is being done, from two seconds after the start on; quick runs stay silent.

    Nothing moves on the screen: an animation would take CPU time from what is being measured.
    """

    def __init__(self, delay_s: float = 2.0) -> None:
        self._console = errors()
        self._lock = threading.Lock()
        self._shown = False
        self._last = ""
        self._printed = 0.0
        self._timer = threading.Timer(delay_s, self._begin)
        self._timer.daemon = True

    def __enter__(self) -> Progress:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()

    def __call__(self, message: str) -> None:
        """Notes what is being done now."""
        with self._lock:
            phase = message.partition(":")[0]
            now = time.monotonic()
            if self._shown and (phase != self._last.partition(":")[0] or now - self._printed > _SAME_PHASE_S):
                self._print(message)
            self._last = message

    def _begin(self) -> None:
        with self._lock:
            self._shown = True
            if self._last:
                self._print(self._last)

    def _print(self, message: str) -> None:
        self._printed = time.monotonic()
        self._console.print(f"{message} ...", style="dim", markup=False)
