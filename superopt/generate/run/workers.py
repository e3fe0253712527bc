"""Workers: executors that run the calls of shards.

All are `concurrent.futures.Executor`s. If a worker dies during a call, only that call is affected: another worker makes
it again.
"""

from __future__ import annotations

import hashlib
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from verify.certificates import kernel_hash
from verify.prove.facts import solver_version

__all__ = ["RemoteWorkers", "Workers", "WorkersError", "code_hash", "managed", "run_call"]

R = TypeVar("R")


class WorkersError(Exception):
    """The workers cannot be started, or died. The message is one line and tells the user what to do."""


@cache
def code_hash() -> str:
    """Return a hash of everything that results depend on: the source code, and the versions of the solver and NumPy.

    The source code is that of superopt and the kernel. The version of Python is left out, because no result may depend
    on it.
    """
    state = hashlib.blake2b(digest_size=16)
    for text in (kernel_hash(), solver_version(), np.__version__):
        state.update(text.encode() + b"\0")
    folder = Path(__file__).parents[2]
    sources = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    for name in sorted(sources):
        state.update(name.encode() + b"\0" + sources[name].read_bytes() + b"\0")
    return state.hexdigest()


class Workers(Executor):
    """An executor that knows how many calls it can run at the same time."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of workers now. On a cluster they come and go, and there may be none."""

    @property
    def room(self) -> int:
        """Number of calls to keep submitted: for each running call one call waits, so that no worker is idle."""
        return max(1, 2 * self.count)

    @abstractmethod
    def stop(self) -> None:
        """Cancel waiting and running calls, and return soon."""


def managed(workers: Workers) -> Iterator[Workers]:
    """Yield the workers; stop them on an exception, and shut them down in any case."""
    try:
        yield workers
    except BaseException:
        workers.stop()
        raise
    finally:
        workers.shutdown()


class RemoteWorkers(Workers):
    """Workers outside this process. Each call in progress is followed by a thread here."""

    def __init__(self, most: int) -> None:
        self._threads = ThreadPoolExecutor(most)

    def submit(self, function: Callable[..., R], /, *arguments: Any, **named: Any) -> Future[R]:
        """Make the call on a worker; see `Executor.submit`."""
        return self._threads.submit(self._call_checked, function, arguments, named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for the threads that follow calls; see `Executor.shutdown`."""
        self._threads.shutdown(wait, cancel_futures=cancel_futures)

    def _call_checked(self, function: Callable[..., R], arguments: tuple[Any, ...], named: dict[str, Any]) -> R:
        answer = self._call_remote(code_hash(), function, arguments, named)
        if isinstance(answer, Exception):
            raise answer
        result: R = answer
        return result

    @abstractmethod
    def _call_remote(self, *question: Any) -> Any:
        """Return `run_call(*question)` as evaluated by a worker. Raises WorkersError."""


_call_lock = threading.Lock()


def run_call(code: str, function: Callable[..., R], arguments: tuple[Any, ...], named: dict[str, Any]) -> R | Exception:
    """Make a call; runs on the worker.

    An exception of the call is returned instead of raised, to distinguish it from failures of the connection. Returns
    WorkersError if the worker's code differs from the caller's, whose `code_hash` is `code`.
    """
    if code_hash() != code:
        return WorkersError("a worker has another version of superopt, NumPy or Z3; install the same everywhere")
    with _call_lock:
        try:
            return function(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - raised by the caller
            return error
