"""Results on disk: one file each, written whole or not at all, and believed only if its checksum agrees."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["StaleResults", "Store", "StoreError", "write_whole"]

_MANIFEST, _LOCK = "manifest.json", "lock"
_SUFFIX, _UNFINISHED = ".result", ".unfinished"
_FORMAT = "superopt results"  # the manifest's key; its value is the version of the layout
_VERSION = 1
_DIGEST = 32  # bytes


class StoreError(Exception):
    """A folder of results cannot be used; the message says what to do."""


class StaleResults(StoreError):
    """The results in the folder are of another run, and cannot be continued."""


class Store:
    """A folder of results by name: `<name>.result`, slashes make folders, beside `manifest.json`.

    A file is the result followed by BLAKE2b(identity, name, result): one that is torn, altered, of another run or
    under another's name is as good as missing.
    """

    def __init__(self, folder: Path, identity: str, resume: bool) -> None:
        """`identity` is a hash of all that the results depend on: seed, grammar, code, kernel.

        With `resume` results that are there are kept; without, those of an earlier run are removed, and nothing else.
        Raises StaleResults where `resume` finds another identity; StoreError where another run uses the folder, or it
        has a manifest that is not ours; OSError.
        """
        self.folder, self.identity = folder, identity
        folder.mkdir(parents=True, exist_ok=True)
        with self.in_use():
            known = self._manifest()
            if resume and known not in (None, identity):
                raise StaleResults(
                    f"{folder}: these results are of another run (seed, options, code or solver differ);"
                    " start over without --resume, or choose another folder"
                )
            if known is not None and not resume:
                self._clear()
            if known != identity:  # last: a run killed while it clears leaves what the manifest says
                text = json.dumps({_FORMAT: _VERSION, "identity": identity}, indent=1) + "\n"
                write_whole(folder / _MANIFEST, text.encode())

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keeps other runs out of the folder. Raises StoreError where one is in it."""
        with open(self.folder / _LOCK, "ab") as file:
            if sys.platform != "win32":
                import fcntl

                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however that ends
                except BlockingIOError:
                    raise StoreError(f"{self.folder}: another run uses this folder; wait for it or stop it") from None
            yield

    def has(self, name: str) -> bool:
        """Whether the result is there and whole."""
        return self._read(name) is not None

    def result(self, name: str) -> bytes:
        """The result. Raises StoreError where it is not there or not whole."""
        payload = self._read(name)
        if payload is None:
            raise StoreError(f"{self._path(name)}: this result is missing or damaged; run again with --resume")
        return payload

    def save(self, name: str, payload: bytes) -> None:
        """Writes the result. Raises OSError."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, payload, self._digest(name, payload))

    def _read(self, name: str) -> bytes | None:
        try:
            content = self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        payload = content[:-_DIGEST]
        return payload if content[-_DIGEST:] == self._digest(name, payload) else None

    def _path(self, name: str) -> Path:
        return self.folder / (name + _SUFFIX)

    def _digest(self, name: str, payload: bytes) -> bytes:
        state = hashlib.blake2b(f"{self.identity}\0{name}\0".encode(), digest_size=_DIGEST)
        state.update(payload)
        return state.digest()

    def _manifest(self) -> str | None:
        """The identity written there; None where there is no manifest."""
        path = self.folder / _MANIFEST
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            content = None
        if not isinstance(content, dict) or _FORMAT not in content:
            raise StoreError(f"{path}: was not written by superopt; choose another folder")
        return str(content["identity"]) if content[_FORMAT] == _VERSION else ""

    def _clear(self) -> None:
        for pattern in (f"*{_SUFFIX}", f"*{_SUFFIX}{_UNFINISHED}"):
            for path in sorted(self.folder.rglob(pattern)):
                path.unlink()
                for parent in path.relative_to(self.folder).parents[:-1]:
                    try:
                        (self.folder / parent).rmdir()
                    except OSError:  # holds something else
                        break


def write_whole(path: Path, *parts: bytes) -> None:
    """The file is as it was or holds all of `parts`. What a killed run left of it is overwritten. Raises OSError."""
    unfinished = path.with_name(path.name + _UNFINISHED)
    try:
        with open(unfinished, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
