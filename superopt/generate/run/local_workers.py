"""Workers of this machine: this process itself, or several other processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing import connection as pipes
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from superopt.generate.run.workers import RemoteWorkers, Workers, WorkersError, code_hash, managed, run_call

__all__ = ["local"]

R = TypeVar("R")

_MAX_ATTEMPTS = 3  # a call is given up after this many processes died during it


@contextmanager
def local(jobs: int) -> Iterator[Workers]:
    """Yield workers of this machine: this process for one job, otherwise `jobs` other processes.

    Each process is started when it is first needed. Leaving by an exception (Ctrl-C) kills the processes. They also end
    when this process ends, for whatever reason.
    """
    code_hash()  # before somebody edits the source
    yield from managed(_Inline() if jobs == 1 else _Processes(jobs))


class _Inline(Workers):
    """Makes each call at once, in this process."""

    count = 1
    room = 1

    def submit(self, function: Callable[..., R], /, *arguments: Any, **named: Any) -> Future[R]:
        future: Future[R] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - the future raises it
            future.set_exception(error)
        return future

    def stop(self) -> None:
        pass


class _Processes(RemoteWorkers):
    """One process for each thread, instead of a shared pool, so that the call during which a process died is known."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self._jobs = jobs
        self._lock = threading.Lock()
        self._stopped = False
        self._all: set[_Process] = set()
        self._idle: list[_Process] = []

    @property
    def count(self) -> int:
        return self._jobs

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._all:
                process.kill()
        self.shutdown(cancel_futures=True)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        for process in self._all if wait else ():
            process.close()

    def _call_remote(self, *question: Any) -> Any:
        asked = pickle.dumps(question)
        for _ in range(_MAX_ATTEMPTS):
            process = self._process()
            try:
                answer = process.ask(asked)
            except (EOFError, OSError):
                with self._lock:
                    self._all.discard(process)
                how = process.close()
            else:
                self._idle.append(process)
                return answer
        raise WorkersError(f"its process died {_MAX_ATTEMPTS} times, at last {how}")

    def _process(self) -> _Process:
        with self._lock:
            if self._stopped:
                raise WorkersError("stopped")
            if self._idle:
                return self._idle.pop()
            process = _Process()
            self._all.add(process)
            return process


class _Process:
    """Another process that answers one call after the other."""

    def __init__(self) -> None:
        # Spawned, not forked: a copy of this process would hold its solver's memory, its threads' locks and our ends
        # of the other pipes.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        if sys.platform != "win32":
            # Ctrl-C reaches every process of the terminal, even before a new process ignores it. So SIGINT is masked
            # here, and the new process inherits the mask. (start() would start the tracker and then lift the mask.)
            resource_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._process.start()
        theirs.close()

    def ask(self, question: bytes) -> Any:
        """Return the answer to a pickled call. Raises EOFError or OSError if the process dies."""
        self._pipe.send_bytes(question)
        # Waiting for the pipe alone is not enough: a child process of the call could keep the pipe open.
        if self._pipe not in pipes.wait([self._pipe, self._process.sentinel]):
            raise EOFError
        return self._pipe.recv()

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def close(self) -> str:
        """End the process and return how it ended."""
        self._pipe.close()
        self._process.join()
        code = self._process.exitcode or 0
        if code != -getattr(signal, "SIGKILL", 9):
            return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return "by SIGKILL (out of memory? fewer --jobs or less --memory take less)"


def _serve(pipe: Connection) -> None:
    """Answer calls from `pipe` until it is closed; the main function of the other process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C does
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code_hash()  # before somebody edits the source
    while True:
        try:
            question = pipe.recv_bytes()
        except EOFError:
            return
        try:
            found = run_call(*pickle.loads(question))
        except Exception as error:  # noqa: BLE001 - for example, a function that cannot be imported here
            found = WorkersError(f"the question cannot be read: {type(error).__name__}: {error}")
        pipe.send(found)


def _end_with_parent() -> None:
    """Exit when the parent process ends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
