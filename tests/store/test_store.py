"""The store of earlier results: several processes, damage, other formats, and rows that are not believed."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from superopt import store as module
from superopt.optimizer import optimize
from superopt.store import (
    SCHEMA_VERSION,
    ModelTiming,
    ModelTimingKey,
    OperatorKey,
    RegionKey,
    RegionTiming,
    ResultStore,
    Seconds,
    StoreTable,
    VerdictKey,
    VerdictProof,
)
from tests.support.models import lora

A = OperatorKey("here", "A")
WRITES = 150


def _write(path: str, number: int, barrier: Any) -> None:
    barrier.wait()  # the file does not exist yet: both make it
    store = ResultStore(Path(path))
    for k in range(WRITES):
        store.region_timings.put(RegionKey("here", "", f"{number}", f"{k}"), RegionTiming(1.5, 1.25))
        store.operator_costs.put(A, Seconds(1.0))
    assert store.problem is None


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store.sqlite"
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2)
    processes = [spawn.Process(target=_write, args=(str(path), number, barrier)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM region_timing").fetchone() == (2 * WRITES,)
        assert connection.execute("SELECT count(*) FROM operator_cost").fetchone() == (1,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_one_process_wrote_another_reads(tmp_path: Path) -> None:
    one, other = ResultStore(tmp_path / "store.sqlite"), ResultStore(tmp_path / "store.sqlite")
    assert other.operator_costs.get(A) is None
    one.operator_costs.put(A, Seconds(0.1))
    one.operator_costs.put(OperatorKey("here", "B"), Seconds(math.inf))
    assert other.operator_costs.get(A) == (0.1,)  # to the last bit
    assert other.operator_costs.get(OperatorKey("here", "B")) == (math.inf,)


def test_every_table_gives_back_what_was_put(tmp_path: Path) -> None:
    kinds: dict[Any, Any] = {str: "text", int: 3, float: 0.5, str | None: None, bytes: b"bytes"}
    with ResultStore(tmp_path / "store.sqlite") as one, ResultStore(tmp_path / "store.sqlite") as other:
        tables = {name: table for name, table in vars(one).items() if isinstance(table, StoreTable)}
        assert len(tables) == 9
        for name, table in tables.items():
            key = table.key_type(*(kinds[type] for type in table.key_columns.values()))
            row = table.row_type(*(kinds[type] for type in table.row_columns.values()))
            table.put(key, row)
            assert getattr(other, name).get(key) == row, name


def test_a_row_is_replaced_whole(tmp_path: Path) -> None:
    key = ModelTimingKey("here", "one", "other", "inputs", "choice")
    for seconds in (1.0, 2.0):
        with ResultStore(tmp_path / "store.sqlite") as store:
            store.model_timings.put(key, ModelTiming(*[seconds] * 7, rounds=9, pairs=8))
    with ResultStore(tmp_path / "store.sqlite") as store:
        assert store.model_timings.get(key) == ModelTiming(*[2.0] * 7, rounds=9, pairs=8)


def test_a_store_that_cannot_be_written_is_a_notice_not_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = ResultStore(tmp_path / "file" / "store.sqlite")
    assert store.problem is not None and "not kept" in store.problem and "\n" not in store.problem
    assert "[Errno" not in store.problem
    store.operator_costs.put(A, Seconds(1.0))
    assert store.operator_costs.get(A) == (1.0,)


def test_a_file_that_can_only_be_read_is_read(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with ResultStore(path) as store:
        store.operator_costs.put(A, Seconds(1.0))
    with ResultStore(path) as store:
        store.execute("PRAGMA query_only = ON")  # permissions do not bind a test that runs as root
        assert store.operator_costs.get(A) == (1.0,) and store.problem is None
        store.operator_costs.put(A, Seconds(2.0))
        assert store.problem is not None and store.operator_costs.get(A) == (2.0,)


def test_a_damaged_file_is_left_alone_and_said(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes(b"this is no database, only some bytes" * 40)
    store = ResultStore(damaged)
    assert store.problem is not None and str(damaged) in store.problem and "remove the file" in store.problem
    store.operator_costs.put(A, Seconds(1.0))
    assert store.operator_costs.get(A) == (1.0,) and damaged.read_bytes().startswith(b"this is no database")


def test_a_file_damaged_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = ResultStore(path)
    for k in range(500):
        store.operator_costs.put(OperatorKey("here", f"{k} {'long' * 20}"), Seconds(1.0))
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:2048] + b"\xff" * (size - 2048))
    fresh = ResultStore(path)
    assert fresh.operator_costs.get(OperatorKey("here", f"7 {'long' * 20}")) is None
    fresh.operator_costs.put(A, Seconds(2.0))
    assert fresh.operator_costs.get(A) == (2.0,) and fresh.problem is not None


def test_rows_that_were_not_written_here_are_not_believed(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "store.sqlite")
    with contextlib.closing(sqlite3.connect(tmp_path / "store.sqlite")) as connection:
        connection.execute("INSERT INTO operator_cost VALUES ('here', 'text', 'soon'), ('here', 'less', -1.0)")
        connection.execute("INSERT INTO verdict VALUES ('kernel', 'equation', 'signature', x'00')")
        connection.commit()
    for name in ("text", "less"):
        assert store.operator_costs.get(OperatorKey("here", name)) is None
    assert store.verdicts.get(VerdictKey("kernel", "equation", "signature")) is None
    for wrong in (math.nan, -1.0):
        with pytest.raises(ValueError, match="cannot be stored"):
            store.operator_costs.put(A, Seconds(wrong))


def test_a_file_of_another_format_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, key = tmp_path / "store.sqlite", VerdictKey("kernel", "equation", "signature")
    with ResultStore(path) as store:
        store.verdicts.put(key, VerdictProof(None))
    with ResultStore(path) as store:
        assert store.verdicts.get(key) == (None,)
    monkeypatch.setattr(module, "SCHEMA_VERSION", SCHEMA_VERSION + 1)
    with ResultStore(path) as store:
        assert store.verdicts.get(key) is None and store.problem is None
        store.verdicts.put(key, VerdictProof("{}"))
    with ResultStore(path) as store:
        assert store.verdicts.get(key) == ("{}",)


def test_a_run_closes_its_store_and_says_that_results_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lora_rules: Path, short_measurements: None
) -> None:
    opened: list[ResultStore] = []
    initialise = ResultStore.__init__

    def listen(self: ResultStore, path: Path | None = None) -> None:
        initialise(self, path)
        opened.append(self)

    monkeypatch.setattr(ResultStore, "__init__", listen)
    first = optimize(lora(), rules=lora_rules, ep="cpu", budget=0.5, cost="analytic")
    assert not any("not kept" in notice for notice in first.notices)
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(module, "default_path", lambda: tmp_path / "file" / "store.sqlite")
    result = optimize(lora(), rules=lora_rules, ep="cpu", budget=0.5, cost="analytic")
    assert [notice for notice in result.notices if "not kept" in notice] == [opened[-1].problem]
    assert len(opened) == 2 and all(store._connection is None for store in opened)
