"""The three answers of the prover."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, Union

from superopt.ir.rule import Condition

__all__ = ["Counterexample", "Proved", "Refuted", "Unknown", "Verdict"]


@dataclass(frozen=True)
class Counterexample:
    """Sizes and tensors at which the two sides differ, with one element where they do."""

    sizes: dict[str, int]
    tensors: dict[str, object]  # name -> nested lists
    reals: dict[str, float]
    output: int
    index: tuple[int, ...]
    left: str  # the element's value, or the shape where the shapes differ
    right: str

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        tensors = "".join(f"\n    {name} = {value}" for name, value in {**self.tensors, **self.reals}.items())
        index = f" at {list(self.index)}" if self.index else ""
        place = f"output {self.output}{index}: left {self.left}, right {self.right}"
        return f"with {sizes or 'no sizes'}\n    {place}{tensors}"


@dataclass(frozen=True)
class Proved:
    """Equal for all sizes that satisfy `conditions` (typing of both sides, and the inferred guards)."""

    conditions: tuple[Condition, ...]
    guards: tuple[Condition, ...]  # those of the conditions that the left side's typing does not imply
    obligations: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Refuted:
    """Not equal."""

    reason: str
    counterexample: Counterexample | None = None


@dataclass(frozen=True)
class Unknown:
    """Neither shown; never to be used as if proven."""

    reason: str


Verdict: TypeAlias = Union[Proved, Refuted, Unknown]
