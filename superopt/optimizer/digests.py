"""Hashes under which results of earlier runs are kept. That of the program is one: other code finds other things."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import verify

__all__ = ["source_digest", "text_digest"]


def text_digest(parts: Iterable[str]) -> str:
    """Return a hash of texts in their order."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


@cache
def source_digest() -> str:
    """Return a hash of all source files of the optimizer and the kernel."""
    folders = Path(__file__).parents[1], Path(str(verify.__file__)).parent
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    return text_digest(hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest() for file in files)
