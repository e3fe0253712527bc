"""The version of the program, as a hash: what was found by other code does not count."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import superopt
import verify

__all__ = ["source_digest"]


@cache
def source_digest() -> str:
    """Return a hash of all source files of the optimizer and the kernel."""
    folders = [Path(str(package.__file__)).parent for package in (superopt, verify)]
    state = hashlib.blake2b(digest_size=16)
    for file in sorted(file for folder in folders for file in folder.rglob("*.py")):
        state.update(hashlib.blake2b(file.read_bytes(), digest_size=16).digest())
    return state.hexdigest()
