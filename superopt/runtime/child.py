"""Calls in a child process: a crash, an endless loop or a lack of memory there costs one call.

`call` runs a function of a module in a persistent child process (`child_main.py`). The function goes to the child by
reference, and arguments and value are pickled (`frames.py`). The parent bounds the wall time of each call, the child
its own memory. After a failure the next call starts another child.

One child serves all threads of the process, one call after the other, because measurements disturb each other. The
child ends when its standard input ends, so also when the parent is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import IO, Any, TypeVar

from superopt.runtime.frames import receive, send
from superopt.runtime.installed import MODULE

__all__ = ["Child", "ChildFailed", "DidNotEnd", "call", "interrupt", "start", "stop"]

R = TypeVar("R")

_STOP_SECONDS = 2.0  # for a child to end by itself
_LOG_TAIL_BYTES = 4096  # of the child's standard error, searched for the last line


class ChildFailed(RuntimeError):
    """The child process ended during a call; the message is one line."""


class DidNotEnd(ChildFailed):
    """The call took longer than its limit."""


class _NotTaken(ChildFailed):
    """The child ended before it had read the whole request."""


class Child:
    """One child process. It imports the module `preload` before its first call."""

    def __init__(self, preload: str) -> None:
        self.parent = os.getpid()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from superopt.runtime.child_main import main; main()", preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    @property
    def usable(self) -> bool:
        """True if the process lives and belongs to this process: a fork must not use its parent's child."""
        return self.parent == os.getpid() and self.process.poll() is None

    def call(
        self,
        function: Callable[..., R],
        arguments: tuple[Any, ...],
        limit_s: float,
        on_message: Callable[[Any], None] = lambda _: None,
    ) -> R:
        """Return the function's value, or raise its exception. Raises ChildFailed, DidNotEnd.

        `on_message` receives what the function tells before it ends (`child_main.tell`).
        """
        late = threading.Event()

        def expire() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(limit_s, expire)
        timer.daemon = True
        timer.start()
        taken = False
        try:
            send(_pipe(self.process.stdin), (function, arguments))
            taken = True
            while (answer := receive(_pipe(self.process.stdout)))[0] == "message":
                on_message(answer[1])
        except (OSError, EOFError) as error:
            self.process.kill()
            code = self.process.wait()
            if late.is_set():
                raise DidNotEnd(f"it did not end within {limit_s:g} s") from error
            raise (ChildFailed if taken else _NotTaken)(self._how_it_ended(code)) from error
        except BaseException:  # the rest of the answer may still be in the pipe
            self.process.kill()
            raise
        finally:
            timer.cancel()
        kind, value = answer
        if kind == "raised":
            try:
                raise value
            finally:
                del answer, value  # the traceback refers to this frame, and so to all arguments
        found: R = value
        return found

    def kill(self) -> None:
        """End the process at once."""
        if self.parent == os.getpid():
            self.process.kill()
        self.end()

    def end(self) -> None:
        """Close the pipes, and end the process if it does not end by itself."""
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):  # a request that nobody has read
                _pipe(pipe).close()
        self._log.close()
        if self.parent != os.getpid():
            return
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _how_it_ended(self, code: int) -> str:
        """Return the exit code or signal, and the last line that the process has printed."""
        how = f"its process crashed ({_signal_name(-code)})" if code < 0 else f"its process ended with exit code {code}"
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LOG_TAIL_BYTES))
        lines = self._log.read().decode(errors="replace").splitlines()
        said = [" ".join(line.split()) for line in lines if line.strip()]
        return f"{how}: {said[-1]}" if said else how


def call(function: Callable[..., R], *arguments: Any, limit_s: float) -> R:
    """Run `function(*arguments)` in the child; return its value, or raise its exception.

    Raises DidNotEnd if it takes longer than `limit_s` seconds of wall time, ChildFailed if the child ends.
    """
    global _caller
    with _lock:
        _caller = threading.get_ident()
        try:
            return _started().call(function, arguments, limit_s)
        except _NotTaken:  # the child had died while it was idle
            return _started().call(function, arguments, limit_s)
        finally:
            _caller = None


def start() -> None:
    """Start the child unless it runs, and do not wait for its imports, which take a part of a second."""
    with _lock:
        _started()


def stop() -> None:
    """End the child. A later call starts another one."""
    global _child
    with _lock:
        child, _child = _child, None
        if child is not None:
            child.end()


def interrupt(thread: int) -> None:
    """End the child at once if it is at work for this thread, whose call fails. A later call starts another one."""
    child = _child
    if child is not None and child.usable and _caller == thread:
        child.process.kill()


_lock = threading.RLock()
_child: Child | None = None
_caller: int | None = None  # the thread that waits for an answer


def _started() -> Child:
    global _child
    if _child is None or not _child.usable:
        stop()
        _child = Child(MODULE)
    return _child


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


atexit.register(stop)
