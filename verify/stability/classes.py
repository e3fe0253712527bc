"""Stability classes of rules, and the levels of numerics that a run may allow."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from verify.verdict import NUMERICS

__all__ = ["EXACT", "LEVELS", "UNSTABLE", "Stability", "allowed"]

# What a run may use, the strictest first; each level includes those before it.
LEVELS = ("exact", "reassociating", "stable", "normwise", "real-only")

_SHOWN = re.compile(r"(stable|normwise)\((\d+(?:\.\d+)?)\)")


@dataclass(frozen=True)
class Stability:
    """The proven bound on the rounding errors of a rule's right side, in one direction.

    `exact`: the sides are equal bit for bit. `stable`: E(right) <= factor * E(left) for each element, at all values and
    sizes. `normwise`: E(right) <= factor * N(left), where N has the largest elements of what is summed in place of the
    elements. `unstable`: no such bound is proven.
    """

    kind: str
    factor: Fraction = Fraction(1)

    @staticmethod
    def bounded(kind: str, factor: Fraction) -> Stability:
        """Return the class with a factor of at least 1, rounded up to hundredths."""
        return Stability(kind, max(Fraction(1), Fraction(math.ceil(factor * 100), 100)))

    def __str__(self) -> str:
        return f"{self.kind}({float(self.factor):g})" if self.kind in ("stable", "normwise") else self.kind

    @staticmethod
    def parse(text: str) -> Stability:
        """Read the output of `str`. Raises ValueError."""
        for known in (EXACT, UNSTABLE):
            if text == known.kind:
                return known
        found = _SHOWN.fullmatch(text)
        if found is None or Fraction(found[2]) < 1:
            raise ValueError(f"not a stability class: {text!r}")
        return Stability(found[1], Fraction(found[2]))


EXACT = Stability("exact")
UNSTABLE = Stability("unstable")
_KINDS = {"stable": ("exact", "stable"), "normwise": ("exact", "stable", "normwise")}


def allowed(level: str, numerics: str, stability: Stability) -> bool:
    """Return True if the level allows a proof of the class `numerics` in a direction of this stability.

    A reassociating rule must be stable as well: sums in another order may cancel where the original does not.
    """
    if level == "real-only":
        return True
    if level in ("exact", "reassociating"):
        strict = NUMERICS[: NUMERICS.index(level) + 1]
        return numerics in strict and stability.kind in _KINDS["stable"]
    return stability.kind in _KINDS[level]
