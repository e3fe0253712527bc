"""Calls made by this process, or by other processes of this machine."""

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

from superopt.generate.run.workers import RemoteWorkers, Workers, WorkersError, answer, code_hash, managed

__all__ = ["local"]

R = TypeVar("R")

_ATTEMPTS = 3  # workers that may die under one call


@contextmanager
def local(jobs: int) -> Iterator[Workers]:
    """This process alone for one job, else so many others, each started when it is first needed.

    Leaving by an exception (Ctrl-C) kills the processes; they die with this process, too, however it ends.
    """
    code_hash()  # before somebody edits the source
    yield from managed(_Inline() if jobs == 1 else _Processes(jobs))


class _Inline(Workers):
    """Calls are made as they are submitted."""

    count = 1
    room = 1

    def submit(self, function: Callable[..., R], /, *arguments: Any, **named: Any) -> Future[R]:
        future: Future[R] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - it is the future's to raise
            future.set_exception(error)
        return future

    def stop(self) -> None:
        pass


class _Processes(RemoteWorkers):
    """A process for every thread, not a pool for all: so it is known which call a process died under."""

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

    def _carry(self, *question: Any) -> Any:
        asked = pickle.dumps(question)
        for _ in range(_ATTEMPTS):
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
        raise WorkersError(f"its process died {_ATTEMPTS} times, at last {how}")

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
    """Another process that answers one question after the other."""

    def __init__(self) -> None:
        # Started afresh: a copy of this process would hold its solver's memory, its threads' locks and our ends of
        # the other pipes.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        if sys.platform != "win32":
            # Ctrl-C reaches every process of the terminal, also before it can say that it ignores it; what this thread
            # blocks, the process is born with. (The tracker is started by start(), which then variation the mask.)
            resource_tracker.ensure_running()
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self._process.start()
        theirs.close()

    def ask(self, question: bytes) -> Any:
        """Raises EOFError or OSError where the process dies."""
        self._pipe.send_bytes(question)
        # The pipe alone would stay open where the call left a process behind.
        if self._pipe not in pipes.wait([self._pipe, self._process.sentinel]):
            raise EOFError
        return self._pipe.recv()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> str:
        """Ends the process; says how it ended."""
        self._pipe.close()
        self._process.join()
        code = self._process.exitcode or 0
        if code != -getattr(signal, "SIGKILL", 9):
            return f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return "by SIGKILL (out of memory? fewer --jobs or less --memory take less)"


def _serve(pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what to do about it is decided where the questions come from
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code_hash()  # before somebody edits the source
    while True:
        try:
            question = pipe.recv_bytes()
        except EOFError:
            return
        try:
            found = answer(*pickle.loads(question))
        except Exception as error:  # noqa: BLE001 - what is not importable here, for one
            found = WorkersError(f"the question cannot be read: {type(error).__name__}: {error}")
        pipe.send(found)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
