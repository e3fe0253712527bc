"""A limit of the effort of a proof that is made during a search.

The prover bounds its steps and queries, but all of them together may take minutes, in which a search stands still. The
effort is counted in calls of functions, not in seconds, so that a repeated run gives up the same proofs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import verify

__all__ = ["GivenUp", "within_effort"]

R = TypeVar("R")

_MAX_CALLS = 10_000_000  # about 5 seconds on a CPU of 2020
_KERNEL = str(Path(str(verify.__file__)).parent)


class GivenUp(Exception):
    """A proof takes more than the limit."""


def within_effort(function: Callable[..., R], *arguments: Any, max_calls: int = _MAX_CALLS) -> R:
    """Return `function(*arguments)`, which asks the kernel. Raises GivenUp if it takes more than `max_calls` calls.

    The kernel keeps nothing of what it was proving then.
    """
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        if event == "call":
            calls += 1
            # Only a function of the prover is stopped: terms, which outlive the proof, must not be left half-made.
            if calls > max_calls and frame.f_code.co_filename.startswith(_KERNEL):
                raise GivenUp("it takes too long to prove during a search")

    profiler, hook = sys.getprofile(), sys.unraisablehook

    def unraisable(raised: Any) -> None:
        if raised.exc_type is not GivenUp:
            hook(raised)
        else:  # by a generator that was being deleted: Python drops the exception and the profiler
            sys.setprofile(count)

    sys.unraisablehook = unraisable
    sys.setprofile(count)
    try:
        return function(*arguments)
    finally:
        sys.setprofile(profiler)
        sys.unraisablehook = hook
