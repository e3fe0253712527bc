"""The whole generator in several processes, in little memory, killed and resumed, and on a cluster that loses a worker:
the same files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from distributed import LocalCluster

from superopt.generate import generate
from superopt.generate.grammar import Family, Use, binary, concat, inputs, splits, transpose
from superopt.generate.run import workers
from tests.support.paths import ROOT

FAMILIES = (
    Family(
        "matrix", inputs("a b c", (2, 2)), (*binary("MatMul Add"), *transpose((1, 0))), 3, variation="matrix", wave=0
    ),
    Family("layout", inputs("x y", (2, 4)), (*binary("Add Mul"), *concat(-1), *splits(-1)), 2, elements=8, parts=2),
    Family("both", inputs("a b c", (2, 2)), (Use("MatMul"), *concat(-1, -2)), 3, elements=8, split_axes=(-1,), parts=3),
)


def files(folder: Path) -> dict[str, bytes]:
    """Return the files of a run, except for the times."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "times.json"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("alone") / "rules"
    summary = generate(folder, families=FAMILIES)
    assert summary.total.rules > 10
    assert not folder.with_name("rules.shards").exists()
    return files(folder)


def test_several_processes(tmp_path: Path, alone: dict[str, bytes]) -> None:
    workers.code_hash.cache_clear()  # cached at the start of the suite; a source file may have been saved since
    generate(tmp_path / "rules", families=FAMILIES, jobs=2)
    assert files(tmp_path / "rules") == alone


def test_little_memory(tmp_path: Path, alone: dict[str, bytes]) -> None:
    generate(tmp_path / "rules", families=FAMILIES, memory=100_000)
    assert files(tmp_path / "rules") == alone


def test_killed_and_resumed(tmp_path: Path, alone: dict[str, bytes]) -> None:
    """The run is killed each time a few more results exist, until it completes; no folder is ever half written."""
    out = tmp_path / "rules"
    shards = tmp_path / "rules.shards"
    command = [sys.executable, "-c", f"import tests.generate.test_runs as t; t.resume({str(out)!r})"]
    kills = seen = 0
    while not (out / "summary.json").exists():
        process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
        while process.poll() is None:
            found = results(shards)
            if found > seen + 2 and kills < 4:
                seen, kills = found, kills + 1
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(0.01)
        process.wait()
        assert process.returncode in (0, -signal.SIGKILL)
        assert not out.exists() or files(out) == alone
    assert kills >= 2
    assert [path.name for path in tmp_path.iterdir()] == [out.name]  # neither results nor temporary files are left
    assert files(out) == alone


def results(shards: Path) -> int:
    """Return the number of results. A run that ends removes the folder, perhaps during the count."""
    try:
        return len(list(shards.rglob("*.result")))
    except FileNotFoundError:
        return 0


def resume(out: str) -> None:
    """Continue a run."""
    generate(out, families=FAMILIES, resume=True)


def test_a_cluster_that_loses_a_worker(tmp_path: Path, alone: dict[str, bytes]) -> None:
    workers.code_hash.cache_clear()
    out = tmp_path / "rules"
    with LocalCluster(n_workers=2, processes=True, threads_per_worker=1, dashboard_address=":0") as running:
        victim = next(iter(running.workers.values())).pid
        over = threading.Event()

        def kill() -> None:
            while not over.wait(0.01):
                if results(tmp_path / "rules.shards"):
                    os.kill(victim, signal.SIGKILL)
                    return

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        generate(out, families=FAMILIES, scheduler=running.scheduler_address)
        over.set()
        killer.join()
    with pytest.raises(ProcessLookupError):
        os.kill(victim, 0)
    assert files(out) == alone
