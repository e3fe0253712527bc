"""A limit on the memory that a call into a library allocates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["limited_memory"]

try:
    import resource
except ImportError:  # not on this system
    resource = None  # type: ignore[assignment]

_STATE = Path("/proc/self/statm")  # of Linux; its sixth number counts the pages of data
_DATA = 5


@contextmanager
def limited_memory(limit: int) -> Iterator[None]:
    """Let allocations in the `with` block fail if this process takes more than `limit` bytes there (on Linux).

    The library that is called must survive this; those that do raise MemoryError.
    """
    if resource is None or not _STATE.exists():
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = int(_STATE.read_text().split()[_DATA]) * resource.getpagesize() + limit
    ends = [end for end in (before, hard) if end != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([wanted, *ends]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))
