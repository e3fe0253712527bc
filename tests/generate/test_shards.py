"""Shards: the same bytes for any workers, after any number of kills, and after any damage to the files."""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from superopt.generate.run.progress import ProgressMeter
from superopt.generate.run.shard_results import ShardResults, StaleResults, StoreError
from superopt.generate.run.shards import Shard, ShardFailed, run
from superopt.generate.run.workers import Workers, WorkersError
from superopt.wording import duration
from tests.support.shard_runs import contents, dies, digest, fails, finish, graph, start, text


class Recorder(Workers):
    """Holds submitted calls until they are released, the latest first."""

    count = 2

    def __init__(self) -> None:
        self.names: list[str] = []
        self.held: list[tuple[Future[Any], Any, Any]] = []
        self.most = 0

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.names.append(arguments[0].name)
        self.held.append((future, function, arguments))
        self.most = max(self.most, len(self.held))
        return future

    def release(self) -> None:
        future, function, arguments = self.held.pop()
        future.set_result(function(*arguments))

    def stop(self) -> None:
        pass


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    from superopt.generate.run import shards

    recorder, wait = Recorder(), shards.wait

    def waits(*arguments: Any, **named: Any) -> Any:
        if recorder.held:
            recorder.release()
        return wait(*arguments, **named)

    monkeypatch.setattr(shards, "wait", waits)
    return recorder


def test_the_same_bytes_from_processes(tmp_path: Path) -> None:
    alone, said = finish(graph(), tmp_path / "alone")
    assert said.startswith("shards done: 30 shards in ")
    together, _ = finish(graph(), tmp_path / "together", jobs=2)
    assert alone == together
    assert len(alone) == 32  # including the manifest and the lock
    # The results are computed, not constant:
    assert ShardResults(tmp_path / "alone", "an identity", True).result("level0/shard-3") == digest(3, 0, "", {})


def test_order(tmp_path: Path, recorder: Recorder) -> None:
    shards = graph()
    run(shards, ShardResults(tmp_path / "other", "an identity", False), recorder, lambda message: None)
    assert recorder.most == 4 == recorder.room
    assert len(set(recorder.names)) == 30
    for shard in shards:
        assert all(recorder.names.index(need) < recorder.names.index(shard.name) for need in shard.needs)
    # The longest first; equal ones as listed.
    assert recorder.names[:4] == [f"level0/shard-{k}" for k in (5, 2, 4, 1)]
    assert contents(tmp_path / "other") == finish(shards, tmp_path / "usual")[0]


@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_again_and_again(tmp_path: Path, jobs: int) -> None:
    rng, log, kills = random.Random(jobs), tmp_path / "log", 4
    folder, expected = tmp_path / "killed", finish(graph(0.0), tmp_path / "whole")[0]
    done = 0
    for _ in range(kills):
        process = start(folder, jobs, log)
        enough = min(30, done + rng.randrange(1, 6))
        while len(list(folder.rglob("*.result"))) < enough:
            assert process.poll() is None, process.communicate()[1].decode()
            time.sleep(0.005)
        time.sleep(rng.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kept = sum(ShardResults(folder, "an identity", True).has(shard.name) for shard in graph())
        assert kept >= enough
        done = len(list(folder.rglob("*.result")))
    process = start(folder, jobs, log)
    assert (process.communicate()[1], process.returncode) == (b"", 0)
    assert contents(folder) == expected
    # Only submitted shards are run again; a process may finish its shard after its parent was killed.
    assert 30 <= len(log.read_text().splitlines()) <= 30 + kills * 2 * jobs


def test_ctrl_c_leaves_at_once_and_cleanly(tmp_path: Path) -> None:
    folder, log = tmp_path / "left", tmp_path / "log"
    process = start(folder, 2, log, pause=0.3)
    while not list(folder.rglob("*.result")):
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    said = process.communicate(timeout=20)[1].decode()
    assert process.returncode == -signal.SIGINT
    assert said.count("Traceback") == 1, said  # its own, none of the workers'
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert finish(graph(), folder, resume=True)[0] == finish(graph(), tmp_path / "whole")[0]


def test_the_same_run_goes_on_and_another_one_starts_over(tmp_path: Path) -> None:
    whole, _ = finish(graph(), tmp_path)
    assert "30 of them kept" in finish(graph(), tmp_path)[1]
    other = ShardResults(tmp_path, "another identity", False)
    assert not any(other.has(shard.name) for shard in graph())
    assert finish(graph(), tmp_path)[0] == whole


@pytest.mark.parametrize("damage", ["truncated", "altered", "emptied", "swapped", "deleted"])
def test_a_damaged_result_is_run_again(tmp_path: Path, damage: str) -> None:
    log = tmp_path / "log"
    whole, _ = finish(graph(), tmp_path / "results")
    path, other = (tmp_path / "results" / "level1" / f"shard-{k}.result" for k in (7, 8))
    content = path.read_bytes()
    if damage == "deleted":
        path.unlink()
    elif damage == "swapped":
        path.write_bytes(other.read_bytes())
    else:
        path.write_bytes({"truncated": content[:-1], "altered": b"?" + content[1:], "emptied": b""}[damage])
    store = ShardResults(tmp_path / "results", "an identity", True)
    assert not store.has("level1/shard-7")
    with pytest.raises(StoreError, match=r"shard-7\.result: this result is missing or damaged; run again"):
        store.result("level1/shard-7")
    again, said = finish(graph(0.0, str(log)), tmp_path / "results", resume=True)
    assert again == whole
    assert log.read_text() == "7\n"
    assert said.startswith("shards done: 30 shards, 29 of them kept in ")


def test_an_unfinished_file_is_removed(tmp_path: Path) -> None:
    whole, _ = finish(graph(), tmp_path / "results")
    path = tmp_path / "results" / "level1" / "shard-7.result"
    path.rename(path.with_name(".superopt-0123abcd.tmp"))
    assert finish(graph(), tmp_path / "results", resume=True)[0] == whole


def test_another_identity_is_refused(tmp_path: Path) -> None:
    whole, _ = finish(graph(), tmp_path)
    with pytest.raises(StaleResults, match=r"another run .*; start over without --resume, or choose another folder"):
        ShardResults(tmp_path, "another identity", True)
    assert contents(tmp_path) == whole
    # Not even if somebody edits the manifest.
    manifest = tmp_path / "manifest.json"
    manifest.write_text(manifest.read_text().replace("an identity", "another identity"))
    assert not any(ShardResults(tmp_path, "another identity", True).has(shard.name) for shard in graph())


def test_starting_over_removes_the_results_only(tmp_path: Path) -> None:
    finish(graph(), tmp_path)
    (tmp_path / "level1" / "notes.txt").write_text("mine")
    (tmp_path / "level2" / ".superopt-0123abcd.tmp").write_text("torn")
    ShardResults(tmp_path, "another identity", False)
    assert sorted(contents(tmp_path)) == ["level1/notes.txt", "lock", "manifest.json"]
    assert not (tmp_path / "level2").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"name": "a manifest of something else"}'])
@pytest.mark.parametrize("resume", [False, True])
def test_a_foreign_folder_is_left_unchanged(tmp_path: Path, content: str, resume: bool) -> None:
    (tmp_path / "manifest.json").write_text(content)
    (tmp_path / "a.result").write_text("mine")
    with pytest.raises(StoreError, match="choose another folder"):
        ShardResults(tmp_path, "an identity", resume)
    assert (tmp_path / "a.result").read_text() == "mine"
    assert (tmp_path / "manifest.json").read_text() == content


def test_one_run_at_a_time(tmp_path: Path) -> None:
    store = ShardResults(tmp_path, "an identity", False)
    for resume in (True, False):
        with store.in_use(), pytest.raises(StoreError, match="another run uses this folder"):
            ShardResults(tmp_path, "an identity", resume)
    ShardResults(tmp_path, "an identity", True)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_shard_is_named_and_the_others_stay(tmp_path: Path, jobs: int) -> None:
    shards = [Shard("good", digest, (1, 0.0, ""), work=9.0), Shard("after", digest, (1, 0.0, ""), ("bad",))]
    with pytest.raises(ShardFailed, match=r"(?s)shard bad failed:.*in fails.*KeyError: 'a reason'"):
        finish([*shards, Shard("bad", fails, (), ("good",))], tmp_path, jobs)
    assert ShardResults(tmp_path, "an identity", True).has("good")
    _, said = finish([*shards, Shard("bad", digest, (2, 0.0, ""), ("good",))], tmp_path, jobs, resume=True)
    assert "3 shards, 1 of them kept" in said


def test_results_are_bytes(tmp_path: Path) -> None:
    with pytest.raises(ShardFailed, match="not bytes, but str"):
        finish([Shard("wrong", text)], tmp_path)


def test_an_unpicklable_shard_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ShardFailed, match=r"(?s)shard wrong failed:.*pickle"):
        finish([Shard("wrong", lambda inputs: b"")], tmp_path, jobs=2)


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    shards = [*graph(), Shard("dies", dies, (2, str(tmp_path / "log")))]
    found, said = finish(shards, tmp_path / "results", jobs=2)
    assert "31 shards in" in said
    assert (tmp_path / "log").read_text() == "xxx"
    assert found.items() > finish(graph(), tmp_path / "alone")[0].items()


def test_a_shard_that_kills_every_process_is_named(tmp_path: Path) -> None:
    shards = [Shard("deadly", dies, (99, str(tmp_path / "log")))]
    with pytest.raises(WorkersError, match="shard deadly: its process died 3 times, at last by SIGKILL"):
        finish(shards, tmp_path / "results", jobs=2)
    assert (tmp_path / "log").read_text() == "xxx"


def test_needs(tmp_path: Path) -> None:
    first = Shard("first", digest, (1, 0.0, ""))
    second = Shard("second", digest, (2, 0.0, ""), ("first",))
    with pytest.raises(ValueError, match="first is needed"):
        finish([second], tmp_path)
    finish([first], tmp_path)
    one, _ = finish([second], tmp_path, resume=True)  # of an earlier call
    assert one == finish([second, first], tmp_path / "both")[0]
    with pytest.raises(ValueError, match="cycle"):
        finish([second, Shard("first", digest, (1, 0.0, ""), ("second",))], tmp_path)


@pytest.mark.parametrize("name", ["", "/a", "a/", "../a", "a//b", ".a", "a b", "a\\b"])
def test_shard_names_are_file_names(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a file"):
        Shard(name, fails)


def test_names_are_unique_and_work_is_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same name"):
        finish([Shard("a", fails), Shard("A", fails)], tmp_path)
    with pytest.raises(ValueError, match="a: work must be positive"):
        Shard("a", fails, work=0.0)


def test_small_shards_that_are_left_are_some_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = [0.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    shards = [Shard("large", fails, work=1e6), *(Shard(f"small-{k}", fails) for k in range(9))]
    meter = ProgressMeter(shards, said.append, "proving")
    clock[0] = 10.0
    for count, shown in ((1, "1 of 10 done, 99% of the work, 0.1 a second, 10 s so far"), (9, "10 of 10 done, 100%")):
        for shard in shards[:1] if count == 1 else shards[1:]:
            meter.add(shard)
        meter.show(1)
        assert shown in said[-1]
        clock[0] += 2.0


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = [100.0], []
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    shards = graph(size=6)  # 1 + 2 + 3 + 1 + 2 + 3 units of work
    meter = ProgressMeter(shards, said.append, "proving")
    meter.present(shards[:2])
    meter.show(1)
    assert said == ["proving: 2 of 6 done, 42% of the work, 0 s so far"]
    meter.add(shards[3])
    clock[0] += 0.9
    meter.show(1)
    assert len(said) == 1  # once a second
    clock[0] += 59.1
    meter.show(0)
    # 3 units took a minute, and 4 are left.
    assert said[1:] == ["proving: 3 of 6 done, 67% of the work, 0.0167 a second, 1 min 20 s left, 1 min 0 s so far"
                        ", no workers yet"]  # fmt: skip
    for shard in (shards[2], *shards[4:]):
        meter.add(shard)
    meter.end()
    assert said[2:] == ["proving done: 6 shards, 2 of them kept in 1 min 0 s"]
    assert [duration(s) for s in (0.4, 59.6, 7500.0, 273600.0)] == ["0 s", "1 min 0 s", "2 h 5 min", "3 d 4 h"]
