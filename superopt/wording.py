"""Wording that several parts share. Imports nothing of superopt."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str) -> str:
    """Return the number with the noun, in the plural unless the number is 1."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
