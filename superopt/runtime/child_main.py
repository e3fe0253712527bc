"""The child process of `child.py`: `main` answers requests from standard input.

Answers go to the original standard output. Whatever a model prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

from superopt.runtime.frames import receive_frames, send, unpickle

# Share of the available memory that the child may use. The rest is for the parent, which receives the outputs.
_MEMORY_SHARE = 0.75
_MIN_MEMORY_BYTES = 1 << 30  # ONNX Runtime itself takes a third of this
_CONTROL_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


_tell: Callable[[object], None] | None = None


def tell(value: object) -> None:
    """Send `value` to the caller of the function that is running. Only for functions that run in a child process."""
    assert _tell is not None
    _tell(value)


def main() -> None:
    """Answer requests until standard input ends; then end at once, also in the middle of a request.

    The argument of the process names a module to import before the first request comes, as that takes its time.
    """
    global _tell
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _limit_memory()
    waiting: queue.SimpleQueue[list[bytearray]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests, waiting), daemon=True).start()
    with contextlib.suppress(Exception):  # the request that needs it reports it
        importlib.import_module(sys.argv[1])
    _tell = partial(_send, answers, "message")
    while True:
        _send(answers, *_answer(waiting.get()))


def _read(requests: IO[bytes], waiting: queue.SimpleQueue[list[bytearray]]) -> None:
    """Queue requests. End the process when the parent has closed the pipe, or is no more."""
    try:
        while True:
            waiting.put(receive_frames(requests))
    except EOFError:
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the rest of a request is lost, so no further one can be read
        traceback.print_exc()
        os._exit(1)


def _answer(request: list[bytearray]) -> tuple[str, object]:
    """Run a request. Return "value" and its value, or "raised" and its exception."""
    try:
        function, arguments = unpickle(request)
        return "value", function(*arguments)
    except Exception as error:  # noqa: BLE001 - every exception is an answer
        error.add_note(f"raised in the child process:\n{traceback.format_exc()}")
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - an exception may hold anything
            return "raised", RuntimeError(f"{type(error).__name__}: {error}")
        return "raised", error.with_traceback(None)


def _send(answers: IO[bytes], kind: str, value: object) -> None:
    try:
        send(answers, (kind, value))
    except OSError:  # nobody waits for it
        os._exit(0)


def lift_memory_limit() -> None:
    """Undo the limit of memory in this child process."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _limit_memory() -> None:
    """Bound the memory that this process may allocate, so that too large a model cannot make the machine swap."""
    try:
        import resource
    except ImportError:  # Windows
        return
    available = available_bytes()
    if available is None:
        return
    # Unlike the address space, data excludes files that are mapped and addresses that are only reserved.
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [
        max(_MIN_MEMORY_BYTES, int(_MEMORY_SHARE * available)),
        *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY),
    ]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))


def available_bytes() -> int | None:
    """Return the memory that can be used without swapping; None if the system does not tell."""
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found.append(1024 * int(next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))))
    for path in _CONTROL_GROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # "max" is no limit
            found.append(int(Path(path).read_text(encoding="ascii")))
    return min(found, default=None)
