"""Folding of weights in one run: each constant is computed once for all candidates, in a bounded time."""

from __future__ import annotations

from collections.abc import Iterable

from superopt.ir.term import Term
from superopt.onnx_io.model import Array
from superopt.search import folding_seconds

__all__ = ["Folding", "first_allowance"]

# Weights of any usual model are folded in less, even if the search has little time.
_MIN_SECONDS = 20.0
# Constants that take less are computed again: their arrays would need memory.
_MIN_KEPT_SECONDS = 0.5


def first_allowance(search_s: float) -> float:
    """Return the seconds of folding that the first candidate of a run may take (see `Folding`)."""
    return max(search_s, _MIN_SECONDS) / 2


class Folding:
    """The constants that were folded in a run, and the time that is left for others.

    All candidates together may take `search_s` seconds by `folding_seconds`, but at least `_MIN_SECONDS`. Each may take
    half of what is left. `known` has the constants that take long to compute.
    """

    def __init__(self, search_s: float) -> None:
        self.known: dict[Term, tuple[Term, Array]] = {}
        self._spent_s = 0.0
        self._first_s = first_allowance(search_s)

    @property
    def allowance_s(self) -> float:
        """The seconds that the next candidate may take."""
        return self._first_s - self._spent_s / 2

    def seconds(self, outputs: Iterable[Term]) -> float:
        """Return the price of folding the constants below `outputs` that are not known."""
        return folding_seconds(outputs, self.known)

    def is_affordable(self, outputs: Iterable[Term]) -> bool:
        """Return True if the constants below `outputs` may be folded."""
        return self.seconds(outputs) <= self.allowance_s

    def charge(self, seconds: float) -> None:
        """Count a fold that was done, and forget the constants that are cheap."""
        self._spent_s += seconds
        self.known = {t: found for t, found in self.known.items() if folding_seconds([t]) >= _MIN_KEPT_SECONDS}
