"""Workers: executors that run the calls of shards, and what all of them have in common.

All are `concurrent.futures.Executor`s. A worker that dies under a call takes nothing else with it; the call is made
again by another worker.
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

__all__ = ["RemoteWorkers", "Workers", "WorkersError", "answer", "code_hash", "managed"]

R = TypeVar("R")


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
    folder = Path(__file__).parents[2]
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


def managed(workers: Workers) -> Iterator[Workers]:
    try:
        yield workers
    except BaseException:
        workers.stop()
        raise
    finally:
        workers.shutdown()


class RemoteWorkers(Workers):
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
        """`answer(*question)` of a worker. Raises WorkersError."""


_one_at_a_time = threading.Lock()


def answer(code: str, function: Callable[..., R], arguments: tuple[Any, ...], named: dict[str, Any]) -> R | Exception:
    """On the worker. What the call raises is returned, to be told from what goes wrong on the way."""
    if code_hash() != code:
        return WorkersError("a worker has another version of superopt, NumPy or Z3; install the same everywhere")
    with _one_at_a_time:
        try:
            return function(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - raised by who asked
            return error
