"""The standard streams of a worker: a failing stderr costs nothing, a failing stdout is an error of its own.

Progress and notices go to stderr, so a full disk or a closed pipe there must not end a run of many minutes. Results go
to stdout: what cannot be written there is said, and where the reader has closed it (`| head`), nothing is.
"""

from __future__ import annotations

import io
import sys
from typing import Any

__all__ = ["CLOSED", "StandardOutputError", "replace_standard_streams"]

CLOSED = 141  # exit code when the reader of stdout is no more, as of a process that SIGPIPE has ended


class StandardOutputError(Exception):
    """The standard output cannot be written; `is_closed` is True if its reader is no more.

    This is no OSError, which Click and Rich would answer with an exit code of their own.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(f"the standard output: {error.strerror or error}")
        self.is_closed = isinstance(error, BrokenPipeError)


class _Results(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise StandardOutputError(error) from None


class _Messages(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def replace_standard_streams() -> None:
    """Write to stdout and stderr as above, and characters that the terminal does not know as escapes."""
    sys.stdout = _text(_Results(1, "wb", closefd=False), sys.stdout)
    sys.stderr = _text(_Messages(2, "wb", closefd=False), sys.stderr)


def _text(raw: io.FileIO, before: object) -> io.TextIOWrapper:
    encoding = getattr(before, "encoding", None)
    buffer = io.BufferedWriter(raw)
    is_line = raw.isatty() or raw.fileno() == 2
    return io.TextIOWrapper(buffer, encoding, "backslashreplace", line_buffering=is_line)
