"""Workers of a Dask cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from superopt.generate.run.rw_lock import RwLock
from superopt.generate.run.workers import RemoteWorkers, Workers, WorkersError, code_hash, managed, run_call

__all__ = ["cluster"]

_CONNECT_TIMEOUT_S = 10.0  # longest time until a scheduler answers
_MAX_WAITING_CALLS = 4096  # calls on a cluster at one time; each occupies a thread in this process


@contextmanager
def cluster(address: str) -> Iterator[Workers]:
    """Yield the workers of the Dask scheduler at `address` (such as tcp://host:8786).

    The workers need the same version of superopt as this process.

    Arguments and results travel through the scheduler. A worker makes one call at a time, however many threads it has
    (the solver serves one), so start `dask worker` with --nworkers auto --nthreads 1. Raises WorkersError if Dask's
    `distributed` is not installed or the scheduler does not answer within 10 s.
    """
    code_hash()
    try:
        import dask.config
        import distributed  # noqa: F401 - only tests that it is installed
    except ImportError:
        raise WorkersError("a cluster needs Dask's distributed: pip install 'superopt[cluster]'") from None
    # Dask warns about arguments over 10 MB, which are better kept on the cluster if used again; ours are used once.
    quiet = dask.config.set({"distributed.admin.large-graph-warning-threshold": "4 GiB"})
    with quiet, _connected(address) as client:
        yield from managed(_Cluster(client, address))


def _connected(address: str) -> Any:
    """Return Dask's client. Raises WorkersError."""
    import distributed
    from distributed.comm.addressing import get_address_host_port

    try:
        get_address_host_port(address, strict=True)
    except (ValueError, TypeError) as error:
        raise WorkersError(f"{address!r} is no address like tcp://host:8786: {error}") from None
    client: Future[Any] = Future()

    def call() -> None:
        try:
            client.set_result(distributed.Client(address, timeout=_CONNECT_TIMEOUT_S, set_as_default=False))
        except Exception as error:  # noqa: BLE001 - raised below
            client.set_exception(error)

    # In a thread: the client's own timeout does not cover a port that accepts the connection and never answers.
    threading.Thread(target=call, daemon=True).start()
    try:
        return client.result(timeout=_CONNECT_TIMEOUT_S + 1)
    except OSError:
        raise WorkersError(f"{address}: no scheduler answers within {_CONNECT_TIMEOUT_S:.0f} s") from None


class _Cluster(RemoteWorkers):
    """Calls through Dask, which repeats a call if its worker is lost.

    Dask gives up a call after `distributed.scheduler.allowed-failures` lost workers (3 by default). This includes calls
    that did no harm, but ran on the same worker as a call that killed it. So such a call is repeated once, alone. It
    fails only if it kills workers again.
    """

    def __init__(self, client: Any, address: str) -> None:
        super().__init__(_MAX_WAITING_CALLS)
        self._client, self._address = client, address
        self._asked = float("-inf")
        self._count = 0
        self._calls: set[Any] = set()
        self._lock = RwLock()

    @property
    def count(self) -> int:
        if time.monotonic() - self._asked > 1:  # once a second is enough
            with suppress(OSError):  # calls in progress will report the error
                self._count = len(self._client.nthreads())
            self._asked = time.monotonic()
        return self._count

    def stop(self) -> None:
        self._lock.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.cancel(list(self._calls))

    def _call_remote(self, *question: Any) -> Any:
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
        """Make a call and wait for its result. Raises KilledWorker, WorkersError."""
        import distributed

        # Not pure: for pure calls Dask hashes the arguments and may return what another client computed.
        call = self._client.submit(run_call, *question, pure=False)
        self._calls.add(call)
        try:
            return call.result()
        except distributed.CancelledError:
            raise WorkersError(f"{self._address}: the scheduler was lost") from None
        except distributed.scheduler.KilledWorker:
            raise
        except Exception as error:  # noqa: BLE001 - not the call's own exception: that is returned
            raise WorkersError(f"a worker cannot run it: {type(error).__name__}: {error}") from None
        finally:
            self._calls.discard(call)
