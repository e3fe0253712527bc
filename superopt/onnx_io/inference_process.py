"""Calls of ONNX's shape inference with limits of memory and time, in a process of their own.

Libraries do not only raise where an allocation fails: inference has crashed there, and has no end for some damaged
models. One process (`inference_server.py`) answers all calls, as long as it lives.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from typing import IO

from onnx import onnx_cpp2py_export

try:
    from superopt.onnx_io import inference_server as server
except ImportError:  # this system has no limits
    server = None  # type: ignore[assignment]

__all__ = ["infer"]


def infer(data: bytes, memory: int, seconds: int, *, data_prop: bool) -> tuple[bytes, float]:
    """Return a serialized model with ONNX's types of its tensors, and the seconds of CPU time that this took.

    The model is empty if inference fails, crashes, or needs more than `memory` bytes. `data_prop` asks to propagate
    values of shapes. Without limits on systems other than Linux. Raises TimeoutError if the CPU time is over.
    """
    if server is None or not server.STATE.exists():
        return _unlimited(data, data_prop), 0.0
    request = server.REQUEST.pack(memory, seconds, data_prop, len(data)) + data
    with _lock:
        for is_new in (False, True):
            if is_new:  # what ended an older process may have been something else
                _stop()
            try:
                return _started().answer(request)
            except _Ended:
                continue
    return b"", 0.0


class _Ended(Exception):
    """The process has ended before it gave an answer."""


class _Process:
    """A process of `inference_server`."""

    def __init__(self) -> None:
        self._parent, self._is_last = os.getpid(), False
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", server.__file__, onnx_cpp2py_export.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    @property
    def usable(self) -> bool:
        """True if the process lives and belongs to this process: a fork must not use its parent's."""
        return self._parent == os.getpid() and not self._is_last and self._process.poll() is None

    def answer(self, request: bytes) -> tuple[bytes, float]:
        """Return the found model and the seconds of CPU time. Raises TimeoutError, _Ended."""
        self._is_last = True  # unless the whole answer comes
        try:
            _pipe(self._process.stdin).write(request)
            _pipe(self._process.stdin).flush()
            taken_s, is_last, size = server.ANSWER.unpack(self._read(server.ANSWER.size))
            found = self._read(size)
        except (BrokenPipeError, EOFError):
            if self._process.wait() == -signal.SIGXCPU:
                raise TimeoutError("it takes more CPU time than its limit") from None
            raise _Ended from None
        self._is_last = is_last
        return found, taken_s

    def _read(self, size: int) -> bytes:
        data = _pipe(self._process.stdout).read(size)
        if len(data) < size:
            raise EOFError
        return data

    def end(self) -> None:
        """End the process, unless it belongs to the process of which this one is a fork."""
        if self._parent == os.getpid():
            self._process.kill()
            self._process.wait()
        else:
            self._process.returncode = 0  # so that Python does not warn of it
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):  # a request that nobody has read
                _pipe(pipe).close()


_lock = threading.Lock()
_process: _Process | None = None


def _started() -> _Process:
    global _process
    if _process is None or not _process.usable:
        _stop()
        _process = _Process()
    return _process


def _stop() -> None:
    global _process
    process, _process = _process, None
    if process is not None:
        process.end()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _unlimited(data: bytes, data_prop: bool) -> bytes:
    try:
        found: bytes = onnx_cpp2py_export.shape_inference.infer_shapes(data, False, False, data_prop)
    except Exception:  # noqa: BLE001 - as in the server
        return b""
    return found


atexit.register(_stop)
