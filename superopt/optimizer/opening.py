"""The runtime loads the original while it is read here: that takes as long as reading it, in another process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from superopt.optimizer.options import Options
from superopt.optimizer.original import open_original
from superopt.optimizer.source import Source
from superopt.runtime import Session, Target, interrupt_child, resolve_target

__all__ = ["Opening", "begin_to_open"]


class Opening:
    """The target of a run, and the original's session there, as soon as they are known.

    `seconds` is the time that the session took to open, without that in which a caller waited for it.
    """

    def __init__(self, source: Source, options: Options) -> None:
        self.seconds = 0.0
        self._thread: int | None = None
        thread = ThreadPoolExecutor(1, thread_name_prefix="open")
        self._target = thread.submit(resolve_target, options.ep, options.threads, options.target)
        self._session: Future[Session] | None = thread.submit(self._open, source)
        thread.shutdown(wait=False)

    def target(self) -> Target:
        """Return the target. Raises what `resolve_target` does."""
        return self._target.result()

    def session(self) -> Session:
        """Return the session, with ONNX Runtime's optimizations, once: then it is the caller's to close.

        Raises what `open_original` does.
        """
        opened, self._session = self._session, None
        assert opened is not None
        begun = time.perf_counter()
        try:
            return opened.result()
        finally:
            self.seconds -= time.perf_counter() - begun

    def end(self) -> None:
        """Open no session any more; what has begun is interrupted."""
        if self._session is not None and not self._session.cancel() and self._thread is not None:
            interrupt_child(self._thread)

    def _open(self, source: Source) -> Session:
        self._thread, target = threading.get_ident(), self.target().in_float32
        begun = time.perf_counter()
        try:
            return open_original(source, target)
        finally:
            self.seconds += time.perf_counter() - begun


@contextmanager
def begin_to_open(source: Source, options: Options) -> Iterator[Opening]:
    """Begin to open the original's session; that is ended at once if the block fails."""
    opening = Opening(source, options)
    try:
        yield opening
    except BaseException:
        opening.end()
        raise
