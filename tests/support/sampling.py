"""The type of the fixture `sampled`, for tests that would take minutes with all rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from superopt.ir.rule import Rule

__all__ = ["Sampled"]

Sampled: TypeAlias = Callable[[Iterable[Rule], int], list[Rule]]
