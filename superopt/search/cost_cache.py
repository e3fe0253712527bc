"""Measured costs on disk: one SQLite table in the user's cache directory, shared by any number of processes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import platformdirs

__all__ = ["CostCache", "default_path"]


def default_path() -> Path:
    """Where measured costs are kept."""
    return Path(platformdirs.user_cache_dir("superopt")) / "costs.sqlite"


class CostCache:
    """Seconds by key. What cannot be stored (no writable directory, a damaged file) is kept for this run only,
    and `problem` says why."""

    def __init__(self, path: Path | None = None) -> None:
        self.problem: str | None = None
        self._memory: dict[str, float] = {}
        self._connection: sqlite3.Connection | None = None
        path = path or default_path()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=10.0, isolation_level=None)
            # A lost entry after a crash costs one measurement. (No WAL: switching to it fails under several processes.)
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute("CREATE TABLE IF NOT EXISTS cost (key TEXT PRIMARY KEY, seconds REAL NOT NULL)")
        except (OSError, sqlite3.Error) as error:
            self.problem = f"measured costs are not kept: {path}: {error}"
        else:
            self._connection = connection

    def get(self, key: str) -> float | None:
        """The seconds stored under `key`."""
        if key not in self._memory and self._connection is not None:
            try:
                row = self._connection.execute("SELECT seconds FROM cost WHERE key = ?", (key,)).fetchone()
            except sqlite3.Error as error:
                self._give_up(error)
                return None
            if row is not None:
                self._memory[key] = float(row[0])
        return self._memory.get(key)

    def put(self, key: str, seconds: float) -> None:
        """Store `seconds` under `key`."""
        self._memory[key] = seconds
        if self._connection is not None:
            try:
                self._connection.execute("INSERT OR REPLACE INTO cost VALUES (?, ?)", (key, seconds))
            except sqlite3.Error as error:
                self._give_up(error)

    def close(self) -> None:
        """Release the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _give_up(self, error: sqlite3.Error) -> None:
        self.problem = f"measured costs are not kept: {error}"
        self.close()
