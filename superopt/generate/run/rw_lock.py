"""A readers-writer lock that prefers writers: any number of shared holders, or one exclusive holder."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager

__all__ = ["RwLock"]


class RwLock:
    """The lock. While a thread waits for exclusive access, no new shared access begins.

    So the wait ends when the calls in progress end.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._shared = 0  # shared holders
        self._exclusive = 0  # exclusive holders, and threads that wait for exclusive access
        self._held_exclusively = False
        self._stopped = False

    def stop(self) -> None:
        """Close the lock: threads that wait for it, or ask for it later, get CancelledError."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with other shared holders."""
        with self._changed:
            self._wait(lambda: not self._exclusive)
            self._shared += 1
        try:
            yield
        finally:
            with self._changed:
                self._shared -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock alone."""
        with self._changed:
            self._exclusive += 1
            try:
                self._wait(lambda: not (self._shared or self._held_exclusively))
            except CancelledError:
                self._exclusive -= 1
                raise
            self._held_exclusively = True
        try:
            yield
        finally:
            with self._changed:
                self._exclusive -= 1
                self._held_exclusively = False
                self._changed.notify_all()

    def _wait(self, free: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: self._stopped or free())
        if self._stopped:
            raise CancelledError
