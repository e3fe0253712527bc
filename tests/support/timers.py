"""Timers that measure nothing: for tests of everything else."""

from __future__ import annotations

from superopt.runtime import Feeds, Timing

__all__ = ["faster", "slower", "timing"]


def timing(ratio: float) -> Timing:
    """Return a measurement of this ratio without any noise."""
    return Timing(ratio, 1.0, ratio, ratio, ratio, ratio, 1.0, 9, "cpu")


def faster(original: object, candidate: object, feeds: Feeds, budget_s: float) -> Timing:
    """Every candidate is faster, so every rewrite found is compared and written."""
    return timing(1.5)


def slower(original: object, candidate: object, feeds: Feeds, budget_s: float) -> Timing:
    """Every candidate is slower, so nothing is written."""
    return timing(0.8)
