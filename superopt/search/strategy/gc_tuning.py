"""Python's cycle collector, set to run rarely during a search."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["rare_collections"]

_COLLECTION_THRESHOLD = 100_000  # new objects between collections (Python's default is 700)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect cycles rarely inside this context.

    Terms, and all that refers to them, form no cycles: reference counts free them. Many of them live long, and the
    collector would visit all of them again and again, for up to a quarter of a search's time.
    """
    before = gc.get_threshold()
    if before[0]:  # 0 means that collection is off
        gc.set_threshold(max(_COLLECTION_THRESHOLD, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
