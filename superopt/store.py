"""Results of earlier runs: measurements, timings, searches and verdicts, in one SQLite file.

The file is in the user's cache directory and serves any number of processes at once. Each kind of result has a table. A
row is written whole or not at all, so an interrupted process leaves no damage.

If the file cannot be used (damaged, read-only, or no directory for it), results are kept for this process only, and
`ResultStore.problem` says so. A file of another `SCHEMA_VERSION` is emptied.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import platformdirs

__all__ = [
    "SCHEMA_VERSION",
    "CalibrationKey",
    "Compared",
    "ComparisonKey",
    "FoundBefore",
    "ModelTiming",
    "ModelTimingKey",
    "OperatorKey",
    "Original",
    "OriginalKey",
    "RegionKey",
    "RegionTiming",
    "ResultStore",
    "SearchKey",
    "Seconds",
    "StabilityClass",
    "StabilityKey",
    "StoreTable",
    "VerdictKey",
    "VerdictProof",
    "default_path",
]

# Raise this number when a table changes, or the method of measuring any of the numbers.
SCHEMA_VERSION = 10

_WRITER_TIMEOUT_S = 10.0  # waiting for another process that writes


class OperatorKey(NamedTuple):
    """An operator with its attributes and operand types, under the conditions of a measurement."""

    conditions: str
    operator: str


class CalibrationKey(NamedTuple):
    """A quantity that measurements of operators refer to, by name."""

    conditions: str
    quantity: str


class Seconds(NamedTuple):
    """Measured seconds; infinite if the measurement is impossible."""

    seconds: float


class RegionKey(NamedTuple):
    """A region before and after its rewrite, by the digests of its outputs, at the values of symbolic `sizes`."""

    conditions: str
    sizes: str
    before: str
    after: str


class RegionTiming(NamedTuple):
    """The ratio (seconds before) / (seconds after), and the lower end of its 95% interval.

    Both are infinite if the region cannot run on its own.
    """

    ratio: float
    low: float


class ModelTimingKey(NamedTuple):
    """Two models and the inputs that they ran on, by their digests.

    `purpose` is "choice" or "acceptance": a result is never accepted by the measurement that it was chosen by.
    """

    conditions: str
    original: str
    candidate: str
    inputs: str
    purpose: str


class ModelTiming(NamedTuple):
    """A `superopt.runtime.Timing` of two models."""

    before: float
    after: float
    ratio: float
    low: float
    high: float
    wall_before: float
    wall_after: float
    rounds: int
    pairs: int


class ComparisonKey(NamedTuple):
    """Two models by their digests, and a hash of the inputs on which they were compared and of how that was done."""

    conditions: str
    original: str
    candidate: str
    inputs: str


class Compared(NamedTuple):
    """A comparison in which no output differed: a `superopt.optimizer.result.Difference` as JSON."""

    difference: str


class OriginalKey(NamedTuple):
    """A model by its digest, and the inputs of a `ComparisonKey`."""

    conditions: str
    original: str
    inputs: str


class Original(NamedTuple):
    """The runs of an original that a candidate was compared with: lines for the user (JSON), and the time they took."""

    notices: str
    seconds: float


class SearchKey(NamedTuple):
    """A graph, by a hash of its outputs' digests, and a hash of all else that its search depends on."""

    conditions: str
    graph: str


class FoundBefore(NamedTuple):
    """The result of a search that took `seconds` seconds (see `superopt.optimizer.remembered_search`)."""

    found: bytes
    seconds: float


class VerdictKey(NamedTuple):
    """An equation (by the digests of its sides) at a signature, and the kernel that gave the verdict."""

    kernel: str
    equation: str
    signature: str


class VerdictProof(NamedTuple):
    """The proof as JSON; None if the kernel found none."""

    proof: str | None


class StabilityKey(NamedTuple):
    """An equation at a signature, as in `VerdictKey`, and the analysis that classified it."""

    analysis: str
    equation: str
    signature: str


class StabilityClass(NamedTuple):
    """The stability class of the equation from left to right, as text."""

    text: str


Key = TypeVar("Key", bound=tuple[Any, ...])
Row = TypeVar("Row", bound=tuple[Any, ...])

_COLUMN_TYPES = {
    str: "TEXT NOT NULL",
    str | None: "TEXT",
    bytes: "BLOB NOT NULL",
    int: "INTEGER NOT NULL",
    float: "REAL NOT NULL",
}


class StoreTable(Generic[Key, Row]):
    """Rows by key. The fields of `key_type` and `row_type`, both named tuples, are the columns."""

    def __init__(self, store: ResultStore, name: str, key_type: type[Key], row_type: type[Row]) -> None:
        self.key_type, self.row_type = key_type, row_type
        self.key_columns: dict[str, Any] = get_type_hints(key_type)
        self.row_columns: dict[str, Any] = get_type_hints(row_type)
        keys, values = self.key_columns, self.row_columns
        columns = [f"{column} {_COLUMN_TYPES[type]}" for column, type in (*keys.items(), *values.items())]
        self._store = store
        self._memory: dict[Key, Row] = {}
        self._select = f"SELECT {', '.join(values)} FROM {name} WHERE " + " AND ".join(f"{key} = ?" for key in keys)
        self._insert = f"INSERT OR REPLACE INTO {name} VALUES ({', '.join('?' * len(columns))})"
        self.drop = f"DROP TABLE IF EXISTS {name}"
        self.create = f"CREATE TABLE {name} ({', '.join(columns)}, PRIMARY KEY ({', '.join(keys)})) WITHOUT ROWID"

    def get(self, key: Key) -> Row | None:
        """Return the row at `key`, or None."""
        if key not in self._memory:
            found = self._store.execute(self._select, key)
            if found and self._is_valid(found[0]):  # else the row was not written here
                self._memory[key] = self.row_type(*found[0])
        return self._memory.get(key)

    def put(self, key: Key, row: Row) -> None:
        """Store `row` at `key`. Raises ValueError for a number that is negative or not a number."""
        if not self._is_valid(row):
            raise ValueError(f"cannot be stored: {row}")
        self._memory[key] = row
        self._store.execute(self._insert, (*key, *row))

    def _is_valid(self, row: tuple[Any, ...]) -> bool:
        return all(_fits(value, type) for value, type in zip(row, self.row_columns.values(), strict=True))


class ResultStore:
    """The tables of one file, at `path` or in the user's cache directory.

    `problem` is one line for the user if the file cannot be used. Close the store, or use it in a `with` block.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.problem: str | None = None
        self._path = path or default_path()
        self._connection: sqlite3.Connection | None = None
        self.operator_costs = StoreTable(self, "operator_cost", OperatorKey, Seconds)
        self.calibrations = StoreTable(self, "calibration", CalibrationKey, Seconds)
        self.region_timings = StoreTable(self, "region_timing", RegionKey, RegionTiming)
        self.model_timings = StoreTable(self, "model_timing", ModelTimingKey, ModelTiming)
        self.comparisons = StoreTable(self, "comparison", ComparisonKey, Compared)
        self.originals = StoreTable(self, "original", OriginalKey, Original)
        self.searches = StoreTable(self, "search", SearchKey, FoundBefore)
        self.verdicts = StoreTable(self, "verdict", VerdictKey, VerdictProof)
        self.stability = StoreTable(self, "stability", StabilityKey, StabilityClass)
        self._open()

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows; none if the file cannot be used."""
        if self._connection is None:
            return []
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def _open(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Each statement is a transaction of its own, and waits for another process that is in one.
            self._connection = sqlite3.connect(self._path, timeout=_WRITER_TIMEOUT_S, isolation_level=None)
            # A row lost in a crash costs one measurement. (No WAL: switching to it fails under several processes.)
            self._connection.execute("PRAGMA synchronous=OFF")
            if self._version() != SCHEMA_VERSION:
                self._create_tables()
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    def _version(self) -> int:
        assert self._connection is not None
        (row,) = self._connection.execute("PRAGMA user_version").fetchall()
        return int(row[0])

    def _create_tables(self) -> None:
        """Replace all tables by empty ones, in one transaction."""
        assert self._connection is not None
        self._connection.execute("BEGIN IMMEDIATE")
        if self._version() != SCHEMA_VERSION:  # another process may have been first
            for table in vars(self).values():
                if isinstance(table, StoreTable):
                    self._connection.execute(table.drop)
                    self._connection.execute(table.create)
            self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._connection.execute("COMMIT")

    def _give_up(self, error: Exception) -> None:
        damaged = isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)
        hint = " (remove the file to start a new one)" if damaged else ""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        self.problem = f"results are not kept for later runs: {self._path}: {reason}{hint}"
        self.close()


def _fits(value: object, type: Any) -> bool:
    """Return True for text if `type` allows it, and for a number that is neither negative nor NaN."""
    if isinstance(value, int | float):
        return type in (int, float) and value >= 0
    return isinstance(value, type)


def default_path() -> Path:
    """Return the path of the store's file in the user's cache directory."""
    return Path(platformdirs.user_cache_dir("superopt")) / "store.sqlite"
