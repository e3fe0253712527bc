"""A library's call with a limit on its memory, in a process of its own."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

__all__ = ["call_with_memory"]

try:
    import resource
except ImportError:  # not on this system
    resource = None  # type: ignore[assignment]

_STATE = Path("/proc/self/statm")  # of Linux; its sixth number counts the pages of data
_DATA = 5


def call_with_memory(limit: int, call: Callable[[], bytes]) -> bytes:
    """Return what `call` returns, if it allocates less than `limit` bytes.

    On Linux a forked process makes the call, because libraries do not only raise where an allocation fails: ONNX's
    inference has crashed there. Elsewhere there is no limit.

    Raises:
        MemoryError: if the call needs more memory, fails or crashes.
    """
    if resource is None or not _STATE.exists():
        return call()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of locks that other threads hold. Those of malloc are released by the C library, and the child
        # takes no other.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _answer(writing, limit, call)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise MemoryError(f"more than {limit:,} bytes, or another failure")
    return answer


def _answer(writing: int, limit: int, call: Callable[[], bytes]) -> None:
    """Write what `call` returns to the file number `writing`, and end this process."""
    failed = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a library that crashes says so there
        _limit_data(limit)
        with open(writing, "wb") as pipe:
            pipe.write(call())
        failed = 0
    finally:
        os._exit(failed)  # nothing of the parent's may run here: no traceback, no clean-up


def _limit_data(more: int) -> None:
    """Let allocations of this process fail beyond what it has and `more` bytes."""
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = int(_STATE.read_text().split()[_DATA]) * resource.getpagesize() + more
    ends = [end for end in (before, hard) if end != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([wanted, *ends]), hard))
