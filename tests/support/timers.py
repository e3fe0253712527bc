"""Timers that measure nothing: for tests of everything else."""

from __future__ import annotations

from superopt.runtime import Feeds, Timing

__all__ = ["faster", "slower"]


def faster(original: object, candidate: object, feeds: Feeds, budget_s: float) -> Timing:
    """Every candidate is faster, so every rewrite found is compared and written."""
    return Timing(1.5, 1.0, 1.5, 1.5, 1.5, 1.5, 1.0, 9, "cpu")


def slower(original: object, candidate: object, feeds: Feeds, budget_s: float) -> Timing:
    """Every candidate is slower, so nothing is written."""
    return Timing(0.8, 1.0, 0.8, 0.8, 0.8, 0.8, 1.0, 9, "cpu")
