"""Work in child processes: a crash, a hang, or too much memory costs one task and is reported as its result."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

from superopt.blas import one_thread

__all__ = ["GIB", "Ended", "OriginalCrashed", "results", "runs_original"]

GIB = 1 << 30
_GUARD = 6 * GIB  # of addresses: the machine must survive a task that asks for everything

Work = Callable[[int], Any]


_runs_original = mmap.mmap(-1, 1)  # one byte that a child shares with its parent


class Ended(Exception):
    """The end of a task that gave no result: a crash, a hang or an error."""


class OriginalCrashed(Ended):
    """A crash of ONNX Runtime on a model that nobody has rewritten (see `runs_original`)."""


@contextmanager
def runs_original() -> Iterator[None]:
    """Say that ONNX Runtime runs a model as it was made, or a node of it: a crash in here is no fault of ours."""
    _runs_original[0] = 1
    try:
        yield
    finally:
        _runs_original[0] = 0


def results(work: Work, tasks: Iterator[int], jobs: int, limit_s: float) -> Iterator[tuple[int, Any]]:
    """Yield (task, result of `work`) as they come; the result is an `Ended` for a task that did not return.

    A task may take `limit_s` seconds of CPU time, and 50 times as many in all: a busy machine is no hang. `work` runs
    in forks of this process, one after the other in the same fork as long as nothing goes wrong and its memory, in
    which libraries keep models, has not grown to a quarter of what a task may take.
    """
    children: dict[Connection, _Child] = {}
    try:
        while True:
            while len(children) < jobs:
                child = _Child(work)
                children[child.pipe] = child
                if not child.give(tasks):
                    break
            if not any(child.task is not None for child in children.values()):
                return
            for pipe in wait(list(children), timeout=0.2):
                child = children[pipe]  # type: ignore[index]  # `wait` may return other objects
                if child.task is None:
                    continue
                task = child.task
                try:
                    result, ends = child.pipe.recv(), child.has_grown()
                except EOFError:
                    result, ends = child.crash(), True
                yield task, result
                if ends:
                    child.end()
                    del children[pipe]  # type: ignore[arg-type]  # as above
                else:
                    child.give(tasks)
            for pipe, child in list(children.items()):
                if child.task is not None and child.hangs(limit_s):
                    task = child.task
                    child.end()
                    del children[pipe]
                    yield task, Ended(f"hang: more than {limit_s:g} s")
    finally:
        for child in children.values():
            child.end()


class _Child:
    def __init__(self, work: Work) -> None:
        fork = multiprocessing.get_context("fork")
        self.pipe, theirs = fork.Pipe()
        self._runs_original = mmap.mmap(-1, 1)
        self.process = fork.Process(target=_serve, args=(work, theirs, self._runs_original), daemon=False)
        self.process.start()
        theirs.close()
        self.task: int | None = None
        self.since = self._cpu_s = 0.0
        self._addresses_at_start = _addresses(self.process.pid)

    def give(self, tasks: Iterator[int]) -> bool:
        """Hand the next task to the child. Return False if there is none."""
        self.task, self.since, self._cpu_s = next(tasks, None), time.monotonic(), self._cpu_time()
        if self.task is not None:
            self.pipe.send(self.task)
        return self.task is not None

    def hangs(self, limit_s: float) -> bool:
        """Return True if the task has taken more than `limit_s` seconds of CPU time, or 50 times as many in all."""
        spent = time.monotonic() - self.since
        return spent > limit_s and (spent > 50 * limit_s or self._cpu_time() - self._cpu_s > limit_s)

    def crash(self) -> Ended:
        """Return how the process ended."""
        self.process.join()
        kind = OriginalCrashed if self._runs_original[0] else Ended
        return kind(f"crash: {_exit(self.process.exitcode)}")

    def has_grown(self) -> bool:
        """Return True if the process holds a quarter of the addresses that it may take."""
        return _addresses(self.process.pid) - self._addresses_at_start > _GUARD / 4

    def _cpu_time(self) -> float:
        """Return the seconds of CPU time of the process and of those of its children that have ended."""
        if sys.platform != "linux":
            return time.monotonic()
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.kill()
        self.process.join()


@one_thread()
def _serve(work: Work, pipe: Connection, shared: mmap.mmap) -> None:
    global _runs_original  # each child has its own
    _runs_original = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its children
    resource.setrlimit(resource.RLIMIT_AS, (_addresses(os.getpid()) + _GUARD, resource.RLIM_INFINITY))
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            pipe.send(work(task))
        except Exception as error:  # noqa: BLE001  every kind of error is a finding
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(str(error).split())[:300]
            pipe.send(Ended(f"{type(error).__name__}: {text} ({where.filename.rsplit('/', 2)[-1]}:{where.lineno})"))


def _addresses(process: int | None) -> int:
    """Bytes of address space that a process has; 0 where that is not known, or for one that has ended."""
    if sys.platform != "linux":
        return 0
    try:
        with open(f"/proc/{process}/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def _exit(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit {code}"
