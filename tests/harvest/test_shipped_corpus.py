"""The shipped corpus: every window can be typed and evaluated, and stands there once, the most important first."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from superopt.corpus import Window, read_corpus, write_corpus
from superopt.harvest.run import is_evaluable

CORPUS = Path(str(files("superopt.generate") / "corpus.txt"))


@pytest.fixture(scope="module")
def windows() -> tuple[Window, ...]:
    return read_corpus(CORPUS)  # types every window at its sizes


def test_every_window_is_evaluated(windows: tuple[Window, ...]) -> None:
    assert [str(window) for window in windows if not is_evaluable(window)] == []


def test_it_is_as_it_was_written(windows: tuple[Window, ...], tmp_path: Path) -> None:
    text = CORPUS.read_text()
    comment = "\n".join(line[2:] for line in text.splitlines() if line.startswith("#"))
    write_corpus(tmp_path / "again.txt", windows, comment)
    assert (tmp_path / "again.txt").read_text() == text


def test_no_window_stands_there_twice(windows: tuple[Window, ...]) -> None:
    assert len({(window.outputs, window.variables) for window in windows}) == len(windows)


def test_it_is_small(windows: tuple[Window, ...]) -> None:
    assert CORPUS.stat().st_size < 1_100_000
    assert all(1 <= len(window.operators) <= 8 for window in windows)
    assert {len(window.operators) for window in windows} == set(range(1, 9))
