"""Output streams, one-line errors, and progress messages for runs of more than two seconds."""

from __future__ import annotations

import errno
import functools
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from superopt.cli.supervisor import INTERRUPTED

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

__all__ = ["NEGATIVE", "UNUSABLE", "USER_ERRORS", "ProgressLines", "errors", "fail", "one_line_errors", "results"]

NEGATIVE, UNUSABLE = 1, 2

# Minimum seconds between two lines of the same phase (the text before the colon).
_SAME_PHASE_SECONDS = 5.0

# Errors that a user can cause, and their modules. Any other exception is a fault of the program and keeps its
# traceback.
USER_ERRORS = {
    "OSError": "builtins",
    "ModelError": "superopt.onnx_io.model",
    "RulesError": "superopt.rulebook.loading",
    "RuntimeUnavailable": "superopt.runtime.target",
    "InputError": "superopt.runtime.shapes",
    "SecondSolverMissing": "verify.diagnose.second_opinion",
}
_SYNTAX_ERROR = {"RuleSyntaxError": "superopt.rulebook.loading"}

P = ParamSpec("P")
R = TypeVar("R")


def results() -> Console:
    """Return the console for results, on stdout: colour only on a terminal and without NO_COLOR, no wrapped lines."""
    from rich.console import Console

    return Console(soft_wrap=True, highlight=False)


def errors() -> Console:
    """Return the console for progress, notices and errors, on stderr."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True, highlight=False)


def fail(message: str) -> NoReturn:
    """Print one line to stderr and exit with code 2."""
    print("error: " + " ".join(message.split()), file=sys.stderr)  # noqa: T201 - not through rich: no markup, no style
    raise SystemExit(UNUSABLE)


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Decorate a command: errors that a user can cause become one line and exit code 2, Ctrl-C one line and 130.

    Rules that cannot be read are shown line by line.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except _imported(_SYNTAX_ERROR) as error:
            print("\n".join(error.lines), file=sys.stderr)  # noqa: T201 - as above
            raise SystemExit(UNUSABLE) from None
        except _imported(USER_ERRORS) as error:
            fail(_error_text(error))
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)  # noqa: T201 - as above
            raise SystemExit(INTERRUPTED) from None

    return run


def _imported(errors: Mapping[str, str]) -> tuple[type[Any], ...]:
    """Return those of the errors whose modules are imported: the others have not been raised."""
    return tuple(getattr(sys.modules[module], name) for name, module in errors.items() if module in sys.modules)


def _error_text(error: Exception) -> str:
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    if error.errno == errno.ENOSPC:  # other files are named in their errors
        return f"{error.strerror} for temporary files; TMPDIR names another folder for them"
    if error.errno == errno.EMFILE:
        return f"{error.strerror} in this process; `ulimit -n` shows and sets the limit"
    return error.strerror


class ProgressLines:
    """Prints progress messages to stderr once `delay_s` seconds have passed, so that quick runs stay silent.

    There is no animation: it would take CPU time from the measurements.
    """

    def __init__(self, delay_s: float = 2.0) -> None:
        self._console = errors()
        self._lock = threading.Lock()
        self._shown = False
        self._last = ""
        self._printed = 0.0
        self._timer = threading.Timer(delay_s, self._begin)
        self._timer.daemon = True

    def __enter__(self) -> ProgressLines:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:  # a line that is being printed comes before what is printed next
            self._last = ""

    def __call__(self, message: str) -> None:
        """Report `message`: print it, or keep it until the delay has passed."""
        with self._lock:
            phase = message.partition(":")[0]
            now = time.monotonic()
            if self._shown and (phase != self._last.partition(":")[0] or now - self._printed > _SAME_PHASE_SECONDS):
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
