"""Wording that several parts share. Imports nothing of superopt."""

from __future__ import annotations

__all__ = ["counted", "duration", "time_left"]


def counted(number: int, noun: str) -> str:
    """Return the number with the noun, in the plural unless the number is 1."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """Return a duration in at most two units: 45 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    whole = round(seconds)
    for name, size, small, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {name} {whole % size // part} {small}"
    return f"{whole} s"


def time_left(elapsed_s: float, done: int, total: int) -> str:
    """Return the expected time for the rest of `total` equal parts, of which one at least is `done`."""
    return f"about {duration(elapsed_s * (total - done) / done)} left"
