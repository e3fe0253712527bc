"""Shards whose functions compute, fail or die, and runs of them in processes that tests may kill."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from superopt.generate.run.local_workers import local
from superopt.generate.run.shard_results import ShardResults
from superopt.generate.run.shards import Shard, run
from tests.support.paths import ROOT

__all__ = ["contents", "dies", "digest", "fails", "finish", "graph", "main", "start", "text"]


def digest(seed: int, pause: float, log: str, inputs: Mapping[str, bytes]) -> bytes:
    """Return bytes that depend on the seed and on every input."""
    time.sleep(pause)
    if log:
        with open(log, "a") as file:
            file.write(f"{seed}\n")
    state = hashlib.sha256(str(seed).encode())
    for name, value in inputs.items():
        state.update(name.encode() + value)
    return state.digest() * (seed + 1)


def fails(inputs: Mapping[str, bytes]) -> bytes:
    raise KeyError("a reason")


def text(inputs: Mapping[str, bytes]) -> bytes:
    return "text"  # type: ignore[return-value]


def dies(times: int, log: str, inputs: Mapping[str, bytes]) -> bytes:
    """Kill the own process so many times before returning a result."""
    with open(log, "a") as file:
        file.write("x")
    if os.path.getsize(log) <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return b"alive"


def graph(pause: float = 0.0, log: str = "", size: int = 30) -> list[Shard]:
    """Return levels of shards, each of which needs three of the level below; the last level comes first."""
    shards = [
        Shard(
            f"level{k // 6}/shard-{k}",
            digest,
            (k, pause, log),
            tuple(f"level{k // 6 - 1}/shard-{k // 6 * 6 - 6 + (k * j) % 6}" for j in (1, 2, 5)) if k >= 6 else (),
            work=1.0 + k % 3,
        )
        for k in range(size)
    ]
    return shards[::-1]


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def finish(shards: list[Shard], folder: Path, jobs: int = 1, resume: bool = False) -> tuple[dict[str, bytes], str]:
    """Run the shards; return the files and the last message."""
    said = [""]
    with local(jobs) as workers:
        run(shards, ShardResults(folder, "an identity", resume), workers, said.append)
    return contents(folder), said[-1]


def main(folder: str, jobs: str, log: str, pause: str) -> None:
    """Main function of the runs that are killed."""
    finish(graph(float(pause), log), Path(folder), int(jobs), resume=True)


def start(folder: Path, jobs: int, log: Path, pause: float = 0.02) -> subprocess.Popen[bytes]:
    # Where the suite runs in the background its children ignore interrupts, unless they say otherwise.
    heeded = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"{heeded}; import sys; from tests.support.shard_runs import main; main(*sys.argv[1:])"
    arguments = [sys.executable, "-c", program, str(folder), str(jobs), str(log), str(pause)]
    return subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True)
