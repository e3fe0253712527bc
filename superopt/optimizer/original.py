"""The original in its runtime, with and without its optimizations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from superopt.onnx_io.functions import MAX_EXPANDED_NODES, can_be_expanded
from superopt.optimizer.source import Source
from superopt.runtime import CannotRun, Feeds, RanTooLong, Session, Target, close_unused, open_session

__all__ = ["OriginalSessions", "TooManyNodes", "open_original"]


class TooManyNodes(CannotRun):
    """The functions of a model call each other so often that ONNX Runtime would write out their nodes for hours."""


def open_original(source: Source, target: Target, level: str = "all") -> Session:
    """Open a session of the original, as `open_session` does. Raises TooManyNodes without trying, and CannotRun."""
    if not can_be_expanded(source.proto):
        raise TooManyNodes(f"its functions stand for more than {MAX_EXPANDED_NODES:,} nodes")
    return open_session(source.runnable, target, level=level)


class OriginalSessions:
    """Sessions of the original at both optimization levels. Of a large model, one is open at a time.

    `notices` has a line for the user if one of them cannot be used: ONNX Runtime's optimizer may break a model, and
    float16 runs on the CPU only with casts that the optimizer inserts. `first` gives a session with optimizations that
    is open already. If not `plain`, there is no session without optimizations unless the original needs it. Raises
    CannotRun if neither loads the model (see `open_original`).
    """

    def __init__(
        self, source: Source, target: Target, first: Callable[[], Session] | None = None, *, plain: bool = True
    ) -> None:
        self.notices: list[str] = []
        self._first = first
        self._source, self._target = source, target
        self._usable = {"all", "none"}
        self._open: dict[str, Session] = {}
        try:
            self._session("all")
        except CannotRun as error:
            try:
                self._session("none")
            except CannotRun:
                raise error from None
            self._drop_optimized(error)
            return
        if not plain:
            self._usable.discard("none")

    @property
    def runs_plain(self) -> bool:
        """True if the original runs without optimizations."""
        return "none" in self._usable

    @property
    def runs_optimized(self) -> bool:
        """True if the original runs with ONNX Runtime's optimizations."""
        return "all" in self._usable

    def run(self, feeds: Feeds) -> list[Any]:
        """Return the outputs with optimizations, or without if it cannot be run with them. Raises CannotRun."""
        return self._session("all" if self.runs_optimized else "none").run(feeds)

    def run_plain(self, feeds: Feeds) -> list[Any] | None:
        """Return the outputs without optimizations, or None if it does not run so."""
        if not self.runs_plain:
            return None
        try:
            return self._session("none").run(feeds)
        except CannotRun as error:
            self._drop_plain(error)
            return None

    def close(self) -> None:
        """Free the memory of the sessions; they are opened again when they are used."""
        self._open.clear()
        close_unused()

    def _session(self, level: str) -> Session:
        if level not in self._open:
            if self._source.is_large:
                self.close()
            first, self._first = self._first, None
            self._open[level] = first() if first else open_original(self._source, self._target, level)
        return self._open[level]

    def first_accepted(self, candidates: Iterable[Feeds]) -> tuple[Feeds, list[Any]]:
        """Return the first inputs on which the original runs, and its outputs.

        Raises the first CannotRun if there are none.
        """
        candidates = list(candidates)
        try:
            return _first_accepted(self.run, candidates)
        except CannotRun as error:
            if self._usable != {"all", "none"} or isinstance(error, RanTooLong):
                raise
            try:
                found = _first_accepted(lambda feeds: self._session("none").run(feeds), candidates)
            except CannotRun:
                raise error from None
            self._drop_optimized(error)
            return found

    def _drop_optimized(self, error: CannotRun) -> None:
        self._usable.discard("all")
        self._open.pop("all", None)
        self.notices.append(
            "ONNX Runtime's optimizer breaks the original, which runs without it (a fault of ONNX Runtime); outputs are"
            f" compared with those of the run without optimizations: {error}"
        )

    def _drop_plain(self, error: CannotRun) -> None:
        self._usable.discard("none")
        self._open.pop("none", None)
        self.notices.append(
            f"outputs are compared with ONNX Runtime's optimizations only, the original does not run without: {error}"
        )


def _first_accepted(run: Callable[[Feeds], list[Any]], candidates: Iterable[Feeds]) -> tuple[Feeds, list[Any]]:
    first: CannotRun | None = None
    for feeds in candidates:
        try:
            return feeds, run(feeds)
        except RanTooLong:  # other integers would take as long
            raise
        except CannotRun as error:
            first = first or error
    assert first is not None
    raise first
