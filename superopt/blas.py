"""Linear algebra on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

__all__ = ["one_thread"]


@contextmanager
def one_thread() -> Iterator[None]:
    """Context manager and decorator: compute NumPy's products of matrices on one thread.

    Threads of OpenBLAS wait for each other, and for the next product, by spinning. Beside other work on two cores, a
    proof by `check` took 60 s of CPU time with two threads and 15 s with one; alone, one thread was no slower.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield
