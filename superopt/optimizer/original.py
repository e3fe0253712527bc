"""The original in ONNX Runtime, with and without its optimizations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from superopt.optimizer.source import Source
from superopt.runtime import CannotRun, Feeds, RanTooLong, Session, Target, open_session

__all__ = ["OriginalSessions"]


class OriginalSessions:
    """Sessions of the original at both optimization levels.

    `notices` has a line for the user if one of them cannot be used: ONNX Runtime's optimizer may break a model, and
    float16 runs on the CPU only with casts that the optimizer inserts. Raises CannotRun if neither loads the model.
    """

    def __init__(self, source: Source, target: Target) -> None:
        self.notices: list[str] = []
        self._optimized: Session | None = None
        self._plain: Session | None = None
        try:
            self._optimized = open_session(source.runnable, target)
        except CannotRun as error:
            try:
                self._plain = open_session(source.runnable, target, level="none")
            except CannotRun:
                raise error from None
            self._note_broken(error)
            return
        try:
            self._plain = open_session(source.runnable, target, level="none")
        except CannotRun as error:
            self._note_plain(error)

    @property
    def runs_plain(self) -> bool:
        """True if the original runs without optimizations."""
        return self._plain is not None

    def run(self, feeds: Feeds) -> list[Any]:
        """Return the outputs with optimizations, or without if it cannot be run with them. Raises CannotRun."""
        session = self._optimized or self._plain
        assert session is not None
        return session.run(feeds)

    def run_plain(self, feeds: Feeds) -> list[Any] | None:
        """Return the outputs without optimizations, or None if it does not run so."""
        if self._plain is None:
            return None
        try:
            return self._plain.run(feeds)
        except CannotRun as error:
            self._plain = None
            self._note_plain(error)
            return None

    def first_accepted(self, candidates: Iterable[Feeds]) -> tuple[Feeds, list[Any]]:
        """Return the first inputs on which the original runs, and its outputs.

        Raises the first CannotRun if there are none.
        """
        candidates = list(candidates)
        try:
            return _first_accepted(self.run, candidates)
        except CannotRun as error:
            if self._optimized is None or self._plain is None or isinstance(error, RanTooLong):
                raise
            try:
                found = _first_accepted(self._plain.run, candidates)
            except CannotRun:
                raise error from None
            self._optimized = None
            self._note_broken(error)
            return found

    def _note_broken(self, error: CannotRun) -> None:
        self.notices.append(
            "ONNX Runtime's optimizer breaks the original, which runs without it (a fault of ONNX Runtime); outputs are"
            f" compared with those of the run without optimizations: {error}"
        )

    def _note_plain(self, error: CannotRun) -> None:
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
