"""The three answers of the prover."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias, Union

from superopt.ir.dim import Size
from superopt.ir.rule import Condition

__all__ = ["NUMERICS", "Counterexample", "Proved", "Refuted", "Unknown", "Verdict"]


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


# Classes of equality, the strictest first: equal bit for bit; equal over the reals for finite inputs, with the same
# terms summed in another order; equal over the reals wherever all intermediate values of both sides are finite (so
# x * 0 = 0 and x / x = 1 may be used).
NUMERICS = ("exact", "reassociating", "real-only")


@dataclass(frozen=True)
class Proved:
    """Equal for all sizes that satisfy `conditions` (typing of both sides, and the inferred guards).

    `numerics` is the strictest class that was shown.

    `roundings` holds two upper bounds, for the left and the right side: the number of rounded operations that one
    element passes through. To first order, and before any nonlinear function, the sides differ by at most
    (left + right) * u * (sum of the absolute values of the summands), where u is the unit roundoff (Higham, Accuracy
    and Stability of Numerical Algorithms, section 3.1). It is None if the class is exact.

    `defined_left`: the proof assumes that the left side's divisions, roots and logarithms are defined. So it does not
    prove the reversed equation.
    """

    conditions: tuple[Condition, ...]
    guards: tuple[Condition, ...]  # the conditions that the left side's typing does not imply
    obligations: int = field(default=0, compare=False)
    numerics: str = "real-only"
    roundings: tuple[Size, Size] | None = None
    defined_left: bool = False
    weakest: bool | None = field(
        default=None, compare=False
    )  # True if no weaker guards would do, see `verify.diagnose.weakest`


@dataclass(frozen=True)
class Refuted:
    """The sides are not equal, or not of one type; `reason` says which."""

    reason: str
    counterexample: Counterexample | None = None


@dataclass(frozen=True)
class Unknown:
    """Neither proven nor refuted. Callers must treat the rule as not proven."""

    reason: str


Verdict: TypeAlias = Union[Proved, Refuted, Unknown]
