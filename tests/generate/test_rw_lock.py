"""The readers-writer lock, and the blame for lost workers of a cluster: only for a call that is alone on them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest
from distributed.scheduler import KilledWorker

from superopt.generate.run.dask_cluster import _Cluster
from superopt.generate.run.rw_lock import RwLock
from superopt.generate.run.workers import WorkersError


class Fragile:
    """A cluster of one worker: "deadly" kills it, and with it the other call that is there at first.

    The test waits until both are there, so that nothing depends on time.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.both = threading.Barrier(2)
        self.calls = 0
        self.here: list[str] = []
        self.again: list[list[str]] = []  # calls in progress when a call was made again

    def submit(self, answer: Any, code: str, function: Any, arguments: tuple[str], named: Any, pure: bool) -> Any:
        (name,) = arguments
        with self.lock:
            self.calls += 1
            first = self.calls <= 2
            self.here.append(name)
            if not first:
                self.again.append(list(self.here))

        def result() -> str:
            if first:
                self.both.wait(timeout=60)
            with self.lock:
                self.here.remove(name)
            if first or name == "deadly":
                raise KilledWorker(name, Mock(address="nowhere"), 3)
            return f"the result of {name}"

        return Mock(result=result)


def test_a_call_beside_a_deadly_one_is_not_blamed() -> None:
    client = Fragile()
    cluster = _Cluster(client, "nowhere")
    deadly, innocent = cluster.submit(str, "deadly"), cluster.submit(str, "innocent")
    assert innocent.result(timeout=60) == "the result of innocent"
    with pytest.raises(WorkersError, match="4 workers died of it"):
        deadly.result(timeout=60)
    assert sorted(client.again) == [["deadly"], ["innocent"]]
    assert cluster.submit(str, "next").result(timeout=60) == "the result of next"
    cluster.shutdown()


def test_exclusive_access_excludes_and_goes_first() -> None:
    lock, order = RwLock(), list[str]()

    def alone() -> None:
        with lock.exclusive():
            order.append("alone")

    def late() -> None:
        with lock.shared():
            order.append("late")

    with ThreadPoolExecutor(2) as threads:
        with lock.shared(), lock.shared():
            asked: list[Future[None]] = [threads.submit(alone)]
            while not lock._exclusive:
                time.sleep(0.001)
            asked.append(threads.submit(late))
            order.append("early")
        for one in asked:
            one.result(timeout=60)
    assert order == ["early", "alone", "late"]


def test_waiting_calls_are_cancelled_by_stop() -> None:
    lock = RwLock()

    def alone() -> None:
        with lock.exclusive():
            raise AssertionError

    with ThreadPoolExecutor(1) as threads, lock.shared():
        waiting = threads.submit(alone)
        lock.stop()
        with pytest.raises(CancelledError):
            waiting.result(timeout=60)
    with pytest.raises(CancelledError), lock.shared():
        pass
