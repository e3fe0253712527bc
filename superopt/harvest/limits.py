"""Bounds of windows."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WindowLimits"]


@dataclass(frozen=True)
class WindowLimits:
    """Bounds of a window: operators, run-time values that it reads, and values that it computes for others."""

    operators: int = 8
    inputs: int = 6
    outputs: int = 4
