"""Calls made by the workers of a Dask cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from superopt.generate.run.rw_lock import RwLock
from superopt.generate.run.workers import RemoteWorkers, Workers, WorkersError, answer, code_hash, managed

__all__ = ["cluster"]

_PATIENCE_S = 10.0  # for a scheduler to answer
_MOST_WAITING = 4096  # calls on a cluster; each holds a thread here


@contextmanager
def cluster(address: str) -> Iterator[Workers]:
    """The workers of the Dask scheduler at `address`, as in tcp://host:8786; they need superopt as it is here.

    Arguments and results travel through the scheduler. A worker runs one call at a time, however many threads it has
    (the solver serves one): so start `dask worker` with --nworkers auto --nthreads 1. Raises WorkersError where
    Dask's `distributed` is not installed or the scheduler does not answer within 10 s.
    """
    code_hash()
    try:
        import dask.config
        import distributed  # noqa: F401 - is it there?
    except ImportError:
        raise WorkersError("a cluster needs Dask's distributed: pip install 'superopt[cluster]'") from None
    # The warning is on arguments over 10 MB in a graph that would better be kept on the cluster; ours are used once.
    quiet = dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GiB"})
    with quiet, _connected(address) as client:
        yield from managed(_Cluster(client, address))


def _connected(address: str) -> Any:
    """Dask's client. Raises WorkersError."""
    import distributed
    from distributed.comm.addressing import get_address_host_port

    try:
        get_address_host_port(address, strict=True)
    except (ValueError, TypeError) as error:
        raise WorkersError(f"{address!r} is no address like tcp://host:8786: {error}") from None
    client: Future[Any] = Future()

    def call() -> None:
        try:
            client.set_result(distributed.Client(address, timeout=_PATIENCE_S, set_as_default=False))
        except Exception as error:  # noqa: BLE001 - raised below
            client.set_exception(error)

    # Apart, as its own limit does not cover a port that accepts and then says nothing.
    threading.Thread(target=call, daemon=True).start()
    try:
        return client.result(timeout=_PATIENCE_S + 1)
    except OSError:
        raise WorkersError(f"{address}: no scheduler answers within {_PATIENCE_S:.0f} s") from None


class _Cluster(RemoteWorkers):
    """Dask makes a call again where a worker is lost (`distributed.scheduler.allowed-failures`, 3 unless set).

    It gives up each call that so many lost workers held, also one that only stood beside the one they died of. So such
    a call is made once more, alone; only what workers then die of is to blame.
    """

    def __init__(self, client: Any, address: str) -> None:
        super().__init__(_MOST_WAITING)
        self._client, self._address = client, address
        self._asked = float("-inf")
        self._count = 0
        self._calls: set[Any] = set()
        self._lock = RwLock()

    @property
    def count(self) -> int:
        if time.monotonic() - self._asked > 1:  # once a second is enough
            with suppress(OSError):  # the calls under way will say what is wrong
                self._count = len(self._client.nthreads())
            self._asked = time.monotonic()
        return self._count

    def stop(self) -> None:
        self._lock.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.cancel(list(self._calls))

    def _carry(self, *question: Any) -> Any:
        import distributed

        killed = distributed.scheduler.KilledWorker
        with suppress(killed), self._lock.shared():
            return self._ask(question)
        try:
            with self._lock.exclusive():
                return self._ask(question)
        except killed as error:
            raise WorkersError(f"{error.allowed_failures + 1} workers died of it (out of memory?)") from None

    def _ask(self, question: tuple[Any, ...]) -> Any:
        """Raises KilledWorker, WorkersError."""
        import distributed

        # Not pure: Dask would hash the arguments, and give what another client computed.
        call = self._client.submit(answer, *question, pure=False)
        self._calls.add(call)
        try:
            return call.result()
        except distributed.CancelledError:
            raise WorkersError(f"{self._address}: the scheduler was lost") from None
        except distributed.scheduler.KilledWorker:
            raise
        except Exception as error:  # noqa: BLE001 - not what the call raises: that is returned
            raise WorkersError(f"a worker cannot run it: {type(error).__name__}: {error}") from None
        finally:
            self._calls.discard(call)
