"""Shards: pure functions of arguments and of other shards' results. Each result is stored on disk.

The result of a shard depends on its arguments and inputs only. So results do not depend on the number of workers, on
the order in which shards finish, or on interruptions of the run.
"""

from __future__ import annotations

import heapq
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from superopt.generate.run.progress import ProgressMeter
from superopt.generate.run.shard_results import ShardResults
from superopt.generate.run.workers import Workers, WorkersError

__all__ = ["Shard", "ShardFailed", "run"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")


class ShardFailed(Exception):
    """A shard's function raised, which is a bug. `trace` is the traceback on the worker."""

    def __init__(self, name: str, trace: str) -> None:
        super().__init__(name, trace)
        self.name, self.trace = name, trace

    def __str__(self) -> str:
        return f"shard {self.name} failed:\n{self.trace}"


@dataclass(frozen=True)
class Shard:
    """One call: `function(*arguments, inputs)`, where `inputs` are the results of the shards that it `needs`, by name.

    The function must be defined in a module and the arguments must be picklable, because both are sent to other
    processes. The function must be pure. It must limit its own memory, for example by an argument. At most as many
    shards as workers run at the same time. The main process holds the inputs of the running shards, and of as many
    waiting shards.
    """

    name: str  # letters, digits, . _ -; slashes make folders of results
    function: Callable[..., bytes]
    arguments: tuple[Any, ...] = ()
    needs: tuple[str, ...] = ()
    work: float = 1.0  # estimate in any unit: the longest shard starts first, and progress is measured in it

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot name a file")
        if not self.work > 0:
            raise ValueError(f"{self.name}: work must be positive, not {self.work}")


def run(
    shards: Sequence[Shard],
    store: ShardResults,
    workers: Workers,
    progress: Callable[[str], None],
    title: str = "shards",
) -> None:
    """Run the shards whose results are not yet in `store`, and save their results.

    The inputs of a shard are results of other `shards`, or in the store already (from an earlier call). At most
    `workers.room` shards are submitted at a time, so a run that is killed loses no more than these. About once a
    second, `progress` is called with a line that begins with `title`; the last line has the total time. Raises
    ShardFailed; WorkersError with the shard's name if workers die; StoreError; OSError; ValueError if names are not
    unique, or needs are unknown or circular.
    """
    by_name = {shard.name: shard for shard in shards}
    if len({name.casefold() for name in by_name}) < len(shards):  # some file systems ignore case
        raise ValueError("two shards have the same name")
    for missing in {need for shard in shards for need in shard.needs} - by_name.keys():
        if not store.has(missing):
            raise ValueError(f"{missing} is needed, but neither among the shards nor in the store")
    with store.in_use():
        _run(by_name, store, workers, ProgressMeter(shards, progress, title))


def _run(by_name: Mapping[str, Shard], store: ShardResults, workers: Workers, meter: ProgressMeter) -> None:
    present = {name for name in by_name if store.has(name)}
    meter.present(by_name[name] for name in present)
    order = {name: number for number, name in enumerate(by_name)}
    sorter = TopologicalSorter({name: [need for need in by_name[name].needs if need in by_name] for name in by_name})
    sorter.prepare()
    waiting: list[tuple[float, int, Shard]] = []  # a heap: the longest first, then in the order given
    submitted: dict[Future[bytes], Shard] = {}
    try:
        while True:
            while ready := sorter.get_ready():
                for name in ready:
                    if name in present:
                        sorter.done(name)
                    else:
                        heapq.heappush(waiting, (-by_name[name].work, order[name], by_name[name]))
            room = workers.room - len(submitted)
            for _ in range(min(room, len(waiting))):
                shard = heapq.heappop(waiting)[-1]
                inputs = {need: store.result(need) for need in shard.needs}
                submitted[workers.submit(_call, shard, inputs)] = shard
            if not submitted:
                break
            meter.show(workers.count)
            finished = wait(submitted, timeout=1.0, return_when=FIRST_COMPLETED).done
            # Failed shards last, so that the results of the others are saved.
            for future in sorted(finished, key=lambda f: (_failed(f), order[submitted[f].name])):
                shard = submitted[future]
                store.save(shard.name, _result(shard, future))
                del submitted[future]
                sorter.done(shard.name)
                meter.add(shard)
    finally:
        for future in submitted:
            future.cancel()
    meter.end()


def _call(shard: Shard, inputs: Mapping[str, bytes]) -> bytes:
    """Call the shard's function; runs on the worker. Exceptions become text, as not all of them can be pickled."""
    try:
        result = shard.function(*shard.arguments, inputs)
        if not isinstance(result, bytes):
            raise TypeError(f"the result is not bytes, but {type(result).__name__}")
        return result
    except Exception as error:
        raise ShardFailed(shard.name, traceback.format_exc()) from error


def _failed(future: Future[bytes]) -> bool:
    return future.cancelled() or future.exception() is not None


def _result(shard: Shard, future: Future[bytes]) -> bytes:
    try:
        return future.result()
    except (WorkersError, CancelledError) as error:
        raise WorkersError(f"shard {shard.name}: {str(error) or 'was cancelled'}") from None
    except ShardFailed:
        raise
    except Exception as error:  # it could not be sent to a worker
        raise ShardFailed(shard.name, traceback.format_exc()) from error
