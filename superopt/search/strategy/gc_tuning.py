"""Python's collector of cycles, and how little of it a search needs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["few_collections"]

_YOUNG = 100_000  # new objects before the collector looks at them (Python's own number is 700)


@contextmanager
def few_collections() -> Iterator[None]:
    """Cycles are collected seldom inside.

    Terms, and all that refers to them, have no cycles: reference counts free them. There are many that live long, and
    the collector would look at all of them again and again, for up to a quarter of a search's time.
    """
    before = gc.get_threshold()
    if before[0]:  # else it is off
        gc.set_threshold(max(_YOUNG, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
