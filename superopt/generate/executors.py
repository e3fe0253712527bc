"""Who runs calls: this process, processes of this machine, or the workers of a Dask cluster.

All are `concurrent.futures.Executor`s. A worker that dies under a call takes nothing else with it; the call is made
again by another worker.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import connection as pipes
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from superopt.generate.rw_lock import Turns
from verify.proofs import kernel_hash
from verify.prove.facts import solver_version

__all__ = ["Workers", "WorkersError", "cluster", "code_hash", "local"]

R = TypeVar("R")

_ATTEMPTS = 3  # workers that may die under one call
_PATIENCE_S = 10.0  # for a scheduler to answer
_MOST_WAITING = 4096  # calls on a cluster; each holds a thread here


class WorkersError(Exception):
    """The workers cannot be had, or died; the message is one line and says what to do."""


@cache
def code_hash() -> str:
    """Hash of superopt's source, the kernel's, and the solver's and NumPy's versions: what results depend on.

    Not of Python's version, on which nothing may depend.
    """
    state = hashlib.blake2b(digest_size=16)
    for text in (kernel_hash(), solver_version(), np.__version__):
        state.update(text.encode() + b"\0")
    folder = Path(__file__).parents[1]
    sources = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    for name in sorted(sources):
        state.update(name.encode() + b"\0" + sources[name].read_bytes() + b"\0")
    return state.hexdigest()


class Workers(Executor):
    """An executor that knows how many calls run side by side."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Workers there are now; on a cluster they come and go, and there may be none."""

    @property
    def room(self) -> int:
        """How many calls to keep submitted: one that waits behind each that runs, so that no worker is idle."""
        return max(1, 2 * self.count)

    @abstractmethod
    def stop(self) -> None:
        """Gives up what waits and what runs, and returns soon."""


@contextmanager
def local(jobs: int) -> Iterator[Workers]:
    """This process alone for one job, else so many others, each started when it is first needed.

    Leaving by an exception (Ctrl-C) kills the processes; they die with this process, too, however it ends.
    """
    code_hash()  # before somebody edits the source
    yield from _run(_Inline() if jobs == 1 else _Processes(jobs))


@contextmanager
def cluster(address: str) -> Iterator[Workers]:
    """The workers of the Dask scheduler at `address`, as in tcp://host:8786; they need superopt as it is here.

    Arguments and results travel through the scheduler. A worker runs one call at a time, however many threads it has
    (the solver serves one): so start `dask worker` with --nworkers auto --nthreads 1. Raises WorkersError where
    Dask's `distributed` is not installed or the scheduler does not answer within 10 s.
    """
    code_hash()
    try:
        import dask.config
        import distributed  # noqa: F401 - is it there?
    except ImportError:
        raise WorkersError("a cluster needs Dask's distributed: pip install 'superopt[cluster]'") from None
    # The warning is on arguments over 10 MB in a graph that would better be kept on the cluster; ours are used once.
    quiet = dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GiB"})
    with quiet, _connected(address) as client:
        yield from _run(_Cluster(client, address))


def _connected(address: str) -> Any:
    """Dask's client. Raises WorkersError."""
    import distributed
    from distributed.comm.addressing import get_address_host_port

    try:
        get_address_host_port(address, strict=True)
    except (ValueError, TypeError) as error:
        raise WorkersError(f"{address!r} is no address like tcp://host:8786: {error}") from None
    client: Future[Any] = Future()

    def call() -> None:
        try:
            client.set_result(distributed.Client(address, timeout=_PATIENCE_S, set_as_default=False))
        except Exception as error:  # noqa: BLE001 - raised below
            client.set_exception(error)

    # Apart, as its own limit does not cover a port that accepts and then says nothing.
    threading.Thread(target=call, daemon=True).start()
    try:
        return client.result(timeout=_PATIENCE_S + 1)
    except OSError:
        raise WorkersError(f"{address}: no scheduler answers within {_PATIENCE_S:.0f} s") from None


def _run(workers: Workers) -> Iterator[Workers]:
    try:
        yield workers
    except BaseException:
        workers.stop()
        raise
    finally:
        workers.shutdown()


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


class _Carried(Workers):
    """A thread here for every call under way elsewhere; it makes the call again where the worker dies."""

    def __init__(self, most: int) -> None:
        self._threads = ThreadPoolExecutor(most)

    def submit(self, function: Callable[..., R], /, *arguments: Any, **named: Any) -> Future[R]:
        return self._threads.submit(self._checked, function, arguments, named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    def _checked(self, function: Callable[..., R], arguments: tuple[Any, ...], named: dict[str, Any]) -> R:
        answer = self._carry(code_hash(), function, arguments, named)
        if isinstance(answer, Exception):
            raise answer
        result: R = answer
        return result

    @abstractmethod
    def _carry(self, *question: Any) -> Any:
        """`_answer(*question)` of a worker. Raises WorkersError."""


_one_at_a_time = threading.Lock()


def _answer(code: str, function: Callable[..., R], arguments: tuple[Any, ...], named: dict[str, Any]) -> R | Exception:
    """On the worker. What the call raises is returned, to be told from what goes wrong on the way."""
    if code_hash() != code:
        return WorkersError("a worker has another version of superopt, NumPy or Z3; install the same everywhere")
    with _one_at_a_time:
        try:
            return function(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - raised by who asked
            return error


class _Processes(_Carried):
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
            # blocks, the process is born with. (The tracker is started by start(), which then lifts the mask.)
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
            answer = _answer(*pickle.loads(question))
        except Exception as error:  # noqa: BLE001 - what is not importable here, for one
            answer = WorkersError(f"the question cannot be read: {type(error).__name__}: {error}")
        pipe.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Cluster(_Carried):
    """Dask makes a call again where a worker is lost (`distributed.scheduler.allowed-failures`, 3 unless set).

    It gives up each call that so many lost workers held, also one that only stood beside the one they died of. So such
    a call is made once more, alone; only what workers then die of is to blame.
    """

    def __init__(self, client: Any, address: str) -> None:
        super().__init__(_MOST_WAITING)
        self._client, self._address = client, address
        self._asked = float("-inf")
        self._count = 0
        self._calls: set[Any] = set()
        self._turns = Turns()

    @property
    def count(self) -> int:
        if time.monotonic() - self._asked > 1:  # once a second is enough
            with suppress(OSError):  # the calls under way will say what is wrong
                self._count = len(self._client.nthreads())
            self._asked = time.monotonic()
        return self._count

    def stop(self) -> None:
        self._turns.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.cancel(list(self._calls))

    def _carry(self, *question: Any) -> Any:
        import distributed

        killed = distributed.scheduler.KilledWorker
        with suppress(killed), self._turns.beside_others():
            return self._ask(question)
        try:
            with self._turns.alone():
                return self._ask(question)
        except killed as error:
            raise WorkersError(f"{error.allowed_failures + 1} workers died of it (out of memory?)") from None

    def _ask(self, question: tuple[Any, ...]) -> Any:
        """Raises KilledWorker, WorkersError."""
        import distributed

        # Not pure: Dask would hash the arguments, and give what another client computed.
        call = self._client.submit(_answer, *question, pure=False)
        self._calls.add(call)
        try:
            return call.result()
        except distributed.CancelledError:
            raise WorkersError(f"{self._address}: the scheduler was lost") from None
        except distributed.scheduler.KilledWorker:
            raise
        except Exception as error:  # noqa: BLE001 - not what the call raises: that is returned
            raise WorkersError(f"a worker cannot run it: {type(error).__name__}: {error}") from None
        finally:
            self._calls.discard(call)
