"""Measured costs on disk: one SQLite table in the user's cache directory, shared by any number of processes."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import platformdirs

__all__ = ["CostCache", "default_path"]

_PATIENCE_S = 10.0  # while another process writes


def default_path() -> Path:
    """Where measured costs are kept."""
    return Path(platformdirs.user_cache_dir("superopt")) / "costs.sqlite"


class CostCache:
    """Seconds by key; infinite where it is known that nothing can be measured.

    What cannot be stored (no writable directory, a damaged file) is kept for this run only, and `problem` says why.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.problem: str | None = None
        self._memory: dict[str, float] = {}
        self._connection: sqlite3.Connection | None = None
        self._path = path or default_path()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Each statement is a transaction of its own, and waits where another process is in one.
            self._connection = sqlite3.connect(self._path, timeout=_PATIENCE_S, isolation_level=None)
            # A lost entry after a crash costs one measurement. (No WAL: switching to it fails under several processes.)
            self._connection.execute("PRAGMA synchronous=OFF")
            self._connection.execute("CREATE TABLE IF NOT EXISTS cost (key TEXT PRIMARY KEY, seconds REAL NOT NULL)")
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    def get(self, key: str) -> float | None:
        """The seconds stored under `key`."""
        if key not in self._memory and self._connection is not None:
            try:
                row = self._connection.execute("SELECT seconds FROM cost WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error as error:
                self._give_up(error)
                return None
            if row is not None and isinstance(row[0], float) and row[0] >= 0:  # else: not what we have written
                self._memory[key] = row[0]
        return self._memory.get(key)

    def put(self, key: str, seconds: float) -> None:
        """Store `seconds` under `key`. Raises ValueError where they are none."""
        self.put_all({key: seconds})

    def put_all(self, entries: Mapping[str, float]) -> None:
        """Store all `entries` or, should the process be killed, none of them. Raises ValueError as `put`."""
        if any(math.isnan(seconds) or seconds < 0 for seconds in entries.values()):
            raise ValueError(f"no seconds: {dict(entries)}")
        self._memory.update(entries)
        if self._connection is not None:
            values = ",".join(["(?, ?)"] * len(entries))
            row = [field for entry in entries.items() for field in entry]
            try:
                self._connection.execute(f"INSERT OR REPLACE INTO cost VALUES {values}", row)
            except sqlite3.Error as error:
                self._give_up(error)

    def close(self) -> None:
        """Release the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up(self, error: Exception) -> None:
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        hint = " (remove the file to begin anew)" if damaged else ""
        self.problem = f"measured costs are not kept: {self._path}: {error}{hint}"
        self.close()
