"""Which rules are worth beginning with, learned while the regions of one model are searched."""

from __future__ import annotations

__all__ = ["Luck"]

# Bursts that one rule may begin in vain, in all regions together, for each gain that it was the beginning of, and one.
_TRIALS = 3
# So many graphs a search expands in vain before it gives up; few once all regions together have spent a share of graphs
# for each burst that gained, and one more, on bursts that did not.
_PATIENCE, _LITTLE_PATIENCE, _SHARE = 50, 10, 30
# Regions in which the promise of a rule is broken before it is believed in no other.
_BROKEN = 2


class Luck:
    """What came of bursts and detours by the rule that they began with. Regions of one model are alike: what leads
    nowhere in several of them is not worth more."""

    def __init__(self) -> None:
        self._vain: dict[tuple[int, str], int] = {}
        self._gains: dict[str, int] = {}
        self._broken: dict[str, int] = {}
        self._credit = _SHARE  # graphs that bursts and detours may still take in vain

    @property
    def patience(self) -> int:
        """How many graphs a search may expand in vain: fewer where bursts have led nowhere in the first regions, which
        are the dearest."""
        return _PATIENCE if self._credit > 0 else _LITTLE_PATIENCE

    def broken(self, rule: str) -> None:
        """A measurement has not found what steps with this rule promised."""
        self._broken[rule] = self._broken.get(rule, 0) + 1

    def is_broken(self, rule: str) -> bool:
        """Whether that happened in several regions."""
        return self._broken.get(rule, 0) >= _BROKEN

    def has_gained(self, rule: str) -> bool:
        """Whether a burst that began with the rule was a gain."""
        return rule in self._gains

    def allows(self, effort: int, rule: str) -> bool:
        """Whether to begin with this rule again, at this effort."""
        return self._vain.get((effort, rule), 0) < _TRIALS * (1 + self._gains.get(rule, 0))

    def tell(self, effort: int, rule: str, gained: bool, graphs: int) -> None:
        """What a burst has come to, which took so many graphs."""
        self._credit += _SHARE if gained else -graphs
        if gained:
            self._gains[rule] = self._gains.get(rule, 0) + 1
        else:
            self._vain[effort, rule] = self._vain.get((effort, rule), 0) + 1
