"""Turns: any number of calls side by side, or one call alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager

__all__ = ["RwLock"]


class RwLock:
    """Who waits to be alone lets nobody else begin, so that the wait ends when the calls under way have."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._beside = 0  # calls under way that bear others beside them
        self._alone = 0  # calls that are alone, or wait for it
        self._taken = False  # by one that is alone
        self._stopped = False

    def stop(self) -> None:
        """Nobody gets a turn any more: who asks, or waits, gets CancelledError."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Side by side with all that have not asked to be alone."""
        with self._changed:
            self._wait(lambda: not self._alone)
            self._beside += 1
        try:
            yield
        finally:
            with self._changed:
                self._beside -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """With nobody beside it."""
        with self._changed:
            self._alone += 1
            try:
                self._wait(lambda: not (self._beside or self._taken))
            except CancelledError:
                self._alone -= 1
                raise
            self._taken = True
        try:
            yield
        finally:
            with self._changed:
                self._alone -= 1
                self._taken = False
                self._changed.notify_all()

    def _wait(self, free: Callable[[], bool]) -> None:
        self._changed.wait_for(lambda: self._stopped or free())
        if self._stopped:
            raise CancelledError
