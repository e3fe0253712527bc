"""Results of shards on disk: one file for each, written atomically, and accepted only if its checksum agrees."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from superopt.files import TEMPORARY, write_whole

__all__ = ["StaleResults", "ShardResults", "StoreError"]

_MANIFEST, _LOCK = "manifest.json", "lock"
_SUFFIX = ".result"
_FORMAT = "superopt results"  # key in the manifest; its value is the version of the file format
_VERSION = 1
_DIGEST = 32  # bytes


class StoreError(Exception):
    """A folder of results cannot be used. The message tells the user what to do."""


class StaleResults(StoreError):
    """The results in the folder belong to another run, so they cannot be continued."""


class ShardResults:
    """A folder of results by name: `<name>.result` (a slash in a name makes a folder), beside `manifest.json`.

    A file is the result followed by BLAKE2b(identity, name, result). A file counts as missing if it is incomplete or
    altered, or if it belongs to another run or another name.
    """

    def __init__(self, folder: Path, identity: str, resume: bool) -> None:
        """Open the folder for a run. `identity` is a hash of everything that results depend on: seed, grammar, code,
        kernel.

        Results of this identity are kept, as they would be the same again. Those of another one are removed, and no
        other files; with `resume` they are an error. Raises StaleResults for that; StoreError if another run uses the
        folder, or its manifest was not written by this program; OSError.
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
            for leftover in self.folder.rglob(TEMPORARY) if known is not None else ():  # of a killed run
                leftover.unlink()
            if known not in (None, identity):
                self._clear()
            if known != identity:  # written last: a run killed while it clears leaves the old manifest
                text = json.dumps({_FORMAT: _VERSION, "identity": identity}, indent=1) + "\n"
                write_whole(folder / _MANIFEST, text.encode())

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Lock the folder against other runs. Raises StoreError if another run holds the lock."""
        with open(self.folder / _LOCK, "ab") as file:
            if sys.platform != "win32":
                import fcntl

                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released when the process ends, however it ends
                except BlockingIOError:
                    raise StoreError(f"{self.folder}: another run uses this folder; wait for it or stop it") from None
            yield

    def has(self, name: str) -> bool:
        """Return True if the result exists and is undamaged."""
        return self._read(name) is not None

    def result(self, name: str) -> bytes:
        """Return the result. Raises StoreError if it is missing or damaged."""
        payload = self._read(name)
        if payload is None:
            raise StoreError(f"{self._path(name)}: this result is missing or damaged; run again with --resume")
        return payload

    def save(self, name: str, payload: bytes) -> None:
        """Write the result. Raises OSError."""
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
        """Return the identity in the manifest, or None if there is no manifest."""
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
        for path in sorted(self.folder.rglob(f"*{_SUFFIX}")):
            path.unlink()
            for parent in path.relative_to(self.folder).parents[:-1]:
                try:
                    (self.folder / parent).rmdir()
                except OSError:  # the folder holds something else
                    break
