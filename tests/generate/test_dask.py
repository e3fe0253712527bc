"""Shards on a Dask cluster of real processes: the same bytes, also if a worker is killed; and errors."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster

from superopt.generate.run import dask_cluster, workers
from superopt.generate.run.dask_cluster import cluster
from superopt.generate.run.shard_results import ShardResults
from superopt.generate.run.shards import Shard, ShardFailed, run
from superopt.generate.run.workers import WorkersError
from tests.support.paths import ROOT
from tests.support.shard_runs import contents, dies, digest, fails, finish, graph


def overlaps(folder: str, inputs: object) -> bytes:
    """Fail if another call runs in the same process."""
    path = Path(folder) / str(os.getpid())
    path.touch(exist_ok=False)
    time.sleep(0.05)
    path.unlink()
    return b""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    workers.code_hash.cache_clear()  # cached at the start of the suite; a source file may have been saved since
    with (
        # Those who need what a killed worker had wait for it so long; Dask's own 30 s are for networks.
        dask.config.set({"distributed.comm.timeouts.connect": "5s"}),
        LocalCluster(n_workers=2, processes=True, threads_per_worker=1, dashboard_address=":0") as running,
    ):
        yield running.scheduler_address


def on_cluster(shards: list[Shard], folder: Path, address: str, resume: bool = False) -> dict[str, bytes]:
    with cluster(address) as workers:
        assert workers.count <= 2
        run(shards, ShardResults(folder, "an identity", resume), workers, lambda message: None)
    return contents(folder)


def test_the_same_bytes(tmp_path: Path, address: str) -> None:
    assert on_cluster(graph(), tmp_path / "cluster", address) == finish(graph(), tmp_path / "alone")[0]


def test_a_killed_worker_loses_nothing(tmp_path: Path, address: str) -> None:
    log = tmp_path / "log"
    shards = [*graph(0.01), Shard("dies", dies, (1, str(log)), ("level1/shard-7",))]
    found = on_cluster(shards, tmp_path / "cluster", address)
    assert log.read_text() == "xx"
    assert found.items() > finish(graph(), tmp_path / "alone")[0].items()


def test_a_shard_that_kills_every_worker_is_named(tmp_path: Path, address: str) -> None:
    shards = [*graph(0.01), Shard("deadly", dies, (99, str(tmp_path / "log")))]
    with pytest.raises(WorkersError, match=r"shard deadly: 4 workers died of it \(out of memory\?\)"):
        on_cluster(shards, tmp_path / "cluster", address)


def test_a_failing_shard_is_named(tmp_path: Path, address: str) -> None:
    with pytest.raises(ShardFailed, match=r"(?s)shard bad failed:.*in fails.*KeyError: 'a reason'"):
        on_cluster([Shard("good", digest, (1, 0.0, "")), Shard("bad", fails, (), ("good",))], tmp_path, address)
    assert ShardResults(tmp_path, "an identity", True).has("good")


def test_other_code_is_refused(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "code_hash", lambda: "of other code")
    with pytest.raises(WorkersError, match=r"shard level0/shard-\d: a worker has another version of superopt"):
        on_cluster(graph(), tmp_path, address)


def test_a_worker_of_several_threads_runs_one_shard_at_a_time(tmp_path: Path) -> None:
    with LocalCluster(n_workers=1, processes=True, threads_per_worker=4, dashboard_address=":0") as running:
        shards = [Shard(f"shard-{k}", overlaps, (str(tmp_path),)) for k in range(8)]
        assert len(on_cluster(shards, tmp_path / "results", running.scheduler_address)) == 10


def test_waits_for_workers_until_ctrl_c(tmp_path: Path) -> None:
    with LocalCluster(n_workers=0, processes=True, dashboard_address=":0") as running:
        said: list[str] = []

        def tell(message: str) -> None:
            said.append(message)
            if len(said) == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), cluster(running.scheduler_address) as workers:
            run(graph(), ShardResults(tmp_path, "an identity", False), workers, tell)
    assert said[1].endswith("so far, no workers yet")


def test_a_lost_scheduler_is_an_error_and_the_run_continues_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import tests.generate.test_dask as t; t.serve()"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    over = threading.Event()
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        folder = tmp_path / "cluster"

        def kill_all() -> None:
            while not over.wait(0.01):
                if list(folder.rglob("*.result")):
                    os.killpg(process.pid, signal.SIGKILL)
                    return

        threading.Thread(target=kill_all, daemon=True).start()
        with pytest.raises(WorkersError, match=r"shard level\d/shard-\d+: .*the scheduler was lost"):
            on_cluster(graph(0.05), folder, address)
    finally:
        over.set()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert finish(graph(0.05), folder, resume=True)[0] == finish(graph(), tmp_path / "alone")[0]


def serve() -> None:
    """Start a scheduler and a worker, which are killed together."""
    with LocalCluster(n_workers=1, processes=True, threads_per_worker=1, dashboard_address=":0") as running:
        print(running.scheduler_address, flush=True)  # noqa: T201 - to the test
        time.sleep(600)


def test_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_CONNECT_TIMEOUT_S", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]  # and nobody listens
        with pytest.raises(WorkersError, match=rf"tcp://127\.0\.0\.1:{port}: no scheduler answers within 1 s"):
            cluster(f"tcp://127.0.0.1:{port}").__enter__()
        silent.listen()  # and nobody answers
        with pytest.raises(WorkersError, match=rf"tcp://127\.0\.0\.1:{port}: no scheduler answers within 1 s"):
            cluster(f"tcp://127.0.0.1:{port}").__enter__()


@pytest.mark.parametrize("address", ["nonsense://127.0.0.1:1", "", "tcp://127.0.0.1:port", "localhost:8786"])
def test_no_address(address: str) -> None:
    with pytest.raises(WorkersError) as error:
        cluster(address).__enter__()
    assert str(error.value).startswith(f"{address!r} is no address like tcp://host:8786: ")
    assert "\n" not in str(error.value)


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(WorkersError, match=r"pip install 'superopt\[cluster\]'"):
        cluster("tcp://127.0.0.1:8786").__enter__()
