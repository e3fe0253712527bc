"""Calls of a library with a limit on their memory and time, in a process of their own."""

from __future__ import annotations

import os
import signal
import struct
import warnings
from collections.abc import Iterable
from pathlib import Path

__all__ = ["answers_within"]

try:
    import resource
except ImportError:  # not on this system
    resource = None  # type: ignore[assignment]

_STATE = Path("/proc/self/statm")  # of Linux; its sixth number counts the pages of data
_DATA = 5
_LENGTH = struct.Struct("<Q")  # of an answer, before it


def answers_within(memory: int, seconds: int, answers: Iterable[bytes]) -> list[bytes]:
    """Return the `answers` that are made before one needs more than `memory` bytes, crashes, or the time is over.

    `seconds` are CPU time. On Linux a forked process makes the answers, because libraries do not only raise where an
    allocation fails: ONNX's inference has crashed there, and has no end for some damaged models. Elsewhere there is no
    limit. Raises TimeoutError if the time is over before the first answer.
    """
    if resource is None or not _STATE.exists():
        return list(answers)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of locks that other threads hold. Those of malloc are released by the C library, and the child
        # takes no other.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _answer(writing, memory, seconds, answers)
    os.close(writing)
    with open(reading, "rb") as pipe:
        made: list[bytes] = []
        while len(head := pipe.read(_LENGTH.size)) == _LENGTH.size:
            made.append(pipe.read(*_LENGTH.unpack(head)))
            if len(made[-1]) < _LENGTH.unpack(head)[0]:
                made.pop()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not made and code == -signal.SIGXCPU:
        raise TimeoutError(f"it does not end within {seconds} s")
    return made


def _answer(writing: int, memory: int, seconds: int, answers: Iterable[bytes]) -> None:
    """Write `answers` to the file number `writing`, and end this process."""
    failed = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a library that crashes says so there
        _limit_data(memory)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds if hard < 0 else min(seconds, hard), hard))
        with open(writing, "wb") as pipe:
            for answer in answers:
                pipe.write(_LENGTH.pack(len(answer)) + answer)
                pipe.flush()
        failed = 0
    finally:
        os._exit(failed)  # nothing of the parent's may run here: no traceback, no clean-up


def _limit_data(more: int) -> None:
    """Let allocations of this process fail beyond what it has and `more` bytes."""
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = int(_STATE.read_text().split()[_DATA]) * resource.getpagesize() + more
    ends = [end for end in (before, hard) if end != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([wanted, *ends]), hard))
