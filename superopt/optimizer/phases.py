"""Time spent in each phase of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Phases"]


class Phases:
    """Wall time of each phase of a run; `progress` receives one line when a phase begins."""

    def __init__(self, progress: Callable[[str], None] | None = None) -> None:
        self.progress = progress or (lambda _: None)
        self._begun = time.perf_counter()
        self._seconds: dict[str, float] = {}

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds of each phase by name, and the "total" since the run has begun."""
        return {**self._seconds, "total": time.perf_counter() - self._begun}

    @contextmanager
    def __call__(self, name: str, message: str | None = None) -> Iterator[None]:
        """Add the time spent inside the `with` block to that of the phase `name`, and report `message`."""
        if message is not None:
            self.progress(message)
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start
